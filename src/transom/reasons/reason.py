"""One reason of a condition, an event or an error."""

import re
from typing import Final, Literal

import msgspec

Where = Literal["condition", "event", "error", "status"]
Heals = Literal["fine", "itself", "after"]
"""No action is required; Transom continues automatically; Transom continues automatically after a user follows `remedy`."""


PAGE: Final = "docs/reasons.md"
_COMMAND: Final = re.compile("`((?:kubectl|transom) [^`]+)`")
_PLACES: Final = re.compile(r"\b(NAME|NAMESPACE|ADDRESS)\b")


class Reason(msgspec.Struct, frozen=True):
    """A reason. An `error` is a class of errors of one host: its name becomes the reason of conditions.

    `transom status` shows `status` if no condition exists. `meaning` and `remedy` are Markdown in one line. `remedy` is empty
    if no action is required. NAME, NAMESPACE and ADDRESS in it are placeholders for those of the object.
    """

    id: str
    where: frozenset[Where]
    heals: Heals
    meaning: str
    remedy: str = ""

    @property
    def page(self) -> str:
        """Return the section of the documentation that explains the reason."""
        return f"{PAGE}#{self.id.lower()}"

    def format_remedy(self, name: str, namespace: str, address: str) -> str:
        """Return the remedy for an object, for a terminal. The placeholders of empty values stay."""
        return _fill_placeholders(self.remedy, name, namespace, address).replace("`", "")

    def get_remedy_command(self, name: str, namespace: str) -> str:
        """Return the first command of the remedy, for a shell. Raises ValueError if it has none."""
        match = _COMMAND.search(self.remedy)
        if match is None:
            raise ValueError(f"{self.id}: no command")
        return _fill_placeholders(match[1], name, namespace, "")


def _fill_placeholders(text: str, name: str, namespace: str, address: str) -> str:
    known = {"NAME": name, "NAMESPACE": namespace, "ADDRESS": address}
    return _PLACES.sub(lambda place: known[place[0]] or place[0], text)


def define_condition(id_: str, heals: Heals, meaning: str, remedy: str = "") -> Reason:
    """Return a reason of conditions."""
    return Reason(id_, frozenset({"condition"}), heals, meaning, remedy)


def define_event(id_: str, heals: Heals, meaning: str, remedy: str = "") -> Reason:
    """Return a reason of events."""
    return Reason(id_, frozenset({"event"}), heals, meaning, remedy)


def define_condition_and_event(id_: str, heals: Heals, meaning: str, remedy: str = "") -> Reason:
    """Return a reason of conditions and events."""
    return Reason(id_, frozenset({"condition", "event"}), heals, meaning, remedy)


def define_error(id_: str, heals: Heals, meaning: str, remedy: str = "") -> Reason:
    """Return a class of errors."""
    return Reason(id_, frozenset({"error"}), heals, meaning, remedy)
