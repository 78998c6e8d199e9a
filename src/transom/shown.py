"""Texts of others where people see them: what a terminal would obey, and what would reorder or hide a line, in letters.

A host, an API server, a tenant's object may hold any character. ESC begins commands to the terminal, a line break forges a
line of ours, a bidirectional override turns one around (Unicode Technical Report 36; in kubectl this was CVE-2021-25743).
"""

import unicodedata
from collections.abc import Callable
from typing import Final

_SEEN: Final = frozenset(("Zs", "Co", "Cn"))
"""What `str.isprintable` is against, and does no harm: blanks, private use, and what a newer Unicode may know."""


def shown(text: str, keep: str = "") -> str:
    r"""`text` with each character that is not seen in letters: `\x1b`, `\n`, `\u202e`, `\ud800`; those in `keep` stay.

    These are controls (C0, DEL, C1), format characters (bidirectional ones, zero width), lone surrogates, U+2028 and U+2029.
    Doing it twice changes nothing more.
    """
    return spelled(text, lambda one: one.encode("unicode_escape").decode(), keep)


def spelled(text: str, letters: Callable[[str], str], keep: str = "") -> str:
    """The same, spelled by `letters`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep or _is_seen(one) else letters(one) for one in text)


def _is_seen(one: str) -> bool:
    return unicodedata.category(one) in _SEEN
