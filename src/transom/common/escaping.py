"""Texts of others where people see them: what a terminal would obey, and what would reorder or hide a line, in letters.

A host, an API server, a tenant's object may hold any character. ESC begins commands to the terminal, a line break forges a
line of output, a bidirectional override turns one around (Unicode Technical Report 36; in kubectl this was CVE-2021-25743).
What has not the form of a name could be anything, a password too: the key of a Secret, of a label.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Any, Final

_SEEN: Final = frozenset(("Zs", "Co", "Cn"))
"""Harmless characters that `str.isprintable` rejects: spaces, private use, and those of newer Unicode versions."""
NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z")
"""A DNS-1123 subdomain (kubernetes.io, "Object Names and IDs")."""
_KEY = re.compile(r"[A-Za-z0-9._/-]{1,128}\Z")
_NAME_LIKE = re.compile(r"[A-Za-z0-9._-]{1,253}\Z")
"""Letters of a name that was mistyped: `corp_ca`."""


def escape_unprintable(text: str, keep: str = "") -> str:
    r"""`text` with each character that is not seen in letters: `\x1b`, `\n`, `\u202e`, `\ud800`; those in `keep` stay.

    These are controls (C0, DEL, C1), format characters (bidirectional ones, zero width), lone surrogates, U+2028 and U+2029.
    Doing it twice changes nothing more.
    """
    return escape_unprintable_with(text, lambda item: item.encode("unicode_escape").decode(), keep)


def escape_unprintable_with(text: str, letters: Callable[[str], str], keep: str = "") -> str:
    """Escape with `letters`."""
    if text.isprintable():
        return text
    return "".join(item if item.isprintable() or item in keep or _is_visible(item) else letters(item) for item in text)


def _is_visible(character: str) -> bool:
    return unicodedata.category(character) in _SEEN


def escape_name(name: Any) -> str:
    """Return a name of an object, valid or mistyped, or what to show instead."""
    return name if isinstance(name, str) and _NAME_LIKE.match(name) else "(invalid name)"


def explain_invalid_name(kind: str, name: str) -> str | None:
    """Return why a reference to an object of a kind cannot be right; None for a valid name."""
    if NAME.match(name):
        return None
    named = f"`{name}` is" if _NAME_LIKE.match(name) else "is"
    return f"{named} not a valid name of a {kind}: lower-case letters, digits, `-` and `.`"


_SECRET_KEYS = frozenset(
    (
        *("apiVersion", "kind", "metadata", "type", "data", "stringData"),
        *("username", "password", "private-key.pem", "ca.crt", "value", "kubeconfig"),
    )
)


def escape_secret_key(key: str) -> str:
    """Escape a key of a Secret, where a misplaced line could be a password."""
    return key if key in _SECRET_KEYS else "(another key)"


def escape_key(key: str) -> str:
    """Return a key of a mapping, or a placeholder."""
    return key if _KEY.match(key) else "(invalid key)"
