"""Names and patterns of hosts, as people give them to a command: `win-1`, `win-1,win-2`, `win-*`."""

import difflib
import fnmatch
from collections.abc import Iterable, Sequence

import msgspec

from transom.common.counting import format_first

_LISTED = 5
"""Hosts that a message names, of many."""


class NameSelection(msgspec.Struct, frozen=True):
    """The names that fit, in their own order, and the patterns that fit none."""

    names: tuple[str, ...]
    unknown: tuple[str, ...]


def select_names(names: Sequence[str], patterns: Iterable[str]) -> NameSelection:
    """Return the `names` that fit one of the patterns; one pattern can hold several, with commas between.

    Without any name, the empty name is unknown: a script whose variable is unset must not succeed.
    """
    wanted = [part.strip() for text in patterns for part in text.split(",") if part.strip()] or [""]
    unknown = tuple(item for item in wanted if not any(fnmatch.fnmatchcase(name, item) for name in names))
    return NameSelection(tuple(name for name in names if any(fnmatch.fnmatchcase(name, item) for item in wanted)), unknown)


def describe_unknown(unknown: Sequence[str], names: Sequence[str], place: str = "") -> str:
    """Return the sentence about names that fit no WindowsInstance (of `place`), with what was probably meant."""
    if not any(unknown):
        return f"the name is empty, perhaps because a variable is unset; there {format_names(names)}"
    close = dict.fromkeys(match for item in unknown for match in difflib.get_close_matches(item, names, n=2))
    hint = f"; did you mean {' or '.join(close)}?" if close and len(names) > 1 else ""
    return f"no WindowsInstance {', '.join(unknown)}{f' in {place}' if place else ''}; there {format_names(names)}{hint}"


def format_names(names: Sequence[str]) -> str:
    """`is win-1`, `are win-1, win-2 and 3 more`, `is none`."""
    return f"{'are' if len(names) > 1 else 'is'} {format_first(names, _LISTED) or 'none'}"
