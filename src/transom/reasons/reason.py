"""One reason, as people look it up."""

from typing import Literal

import msgspec

Where = Literal["condition", "event", "error"]
Heals = Literal["fine", "itself", "after"]
"""Nothing is wrong; Transom goes on by itself; it goes on by itself once somebody did what `remedy` says."""


class Reason(msgspec.Struct, frozen=True):
    """A word that Transom says. An `error` is a class of errors of one host: its name becomes the reason of conditions.

    `meaning` and `remedy` are Markdown in one line; `remedy` is empty where there is nothing to do.
    """

    id: str
    where: frozenset[Where]
    heals: Heals
    meaning: str
    remedy: str = ""


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
