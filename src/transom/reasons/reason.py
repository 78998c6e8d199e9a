"""One reason, as people look it up."""

import re
from typing import Final, Literal

import msgspec

Where = Literal["condition", "event", "error", "status"]
Heals = Literal["fine", "itself", "after"]
"""Nothing is wrong; Transom goes on by itself; it goes on by itself once somebody did what `remedy` says."""


PAGE: Final = "docs/reasons.md"
_COMMAND: Final = re.compile("`((?:kubectl|transom) [^`]+)`")
_PLACES: Final = re.compile(r"\b(NAME|NAMESPACE|ADDRESS)\b")


class Reason(msgspec.Struct, frozen=True):
    """A word that Transom says. An `error` is a class of errors of one host: its name becomes the reason of conditions.

    `status` is what `transom status` says where there is no condition. `meaning` and `remedy` are Markdown in one line;
    `remedy` is empty where there is nothing to do, and NAME, NAMESPACE and ADDRESS in it stand for those of the object.
    """

    id: str
    where: frozenset[Where]
    heals: Heals
    meaning: str
    remedy: str = ""

    @property
    def page(self) -> str:
        """Where it is told of."""
        return f"{PAGE}#{self.id.lower()}"

    def step(self, name: str, namespace: str, address: str) -> str:
        """What there is to do about an object, as a terminal shows it; what is empty stays in capitals."""
        return _filled(self.remedy, name, namespace, address).replace("`", "")

    def command(self, name: str, namespace: str) -> str:
        """The first command of what there is to do, for a shell. Raises ValueError where there is none."""
        found = _COMMAND.search(self.remedy)
        if found is None:
            raise ValueError(f"{self.id}: no command")
        return _filled(found[1], name, namespace, "")


def _filled(text: str, name: str, namespace: str, address: str) -> str:
    known = {"NAME": name, "NAMESPACE": namespace, "ADDRESS": address}
    return _PLACES.sub(lambda place: known[place[0]] or place[0], text)


def condition(id_: str, heals: Heals, meaning: str, remedy: str = "") -> Reason:
    """A reason of conditions."""
    return Reason(id_, frozenset({"condition"}), heals, meaning, remedy)


def event(id_: str, heals: Heals, meaning: str, remedy: str = "") -> Reason:
    """A reason of events."""
    return Reason(id_, frozenset({"event"}), heals, meaning, remedy)


def both(id_: str, heals: Heals, meaning: str, remedy: str = "") -> Reason:
    """A reason of conditions and of events."""
    return Reason(id_, frozenset({"condition", "event"}), heals, meaning, remedy)


def error(id_: str, heals: Heals, meaning: str, remedy: str = "") -> Reason:
    """A class of errors."""
    return Reason(id_, frozenset({"error"}), heals, meaning, remedy)
