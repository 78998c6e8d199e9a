"""Texts of others where people see them: what a terminal would obey, and what would reorder or hide a line, in letters.

A host, an API server, a tenant's object may hold any character. ESC begins commands to the terminal, a line break forges a
line of ours, a bidirectional override turns one around (Unicode Technical Report 36; in kubectl this was CVE-2021-25743).
What has not the form of a name could be anything, a password too: the key of a Secret, of a label.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Any, Final

_SEEN: Final = frozenset(("Zs", "Co", "Cn"))
"""What `str.isprintable` is against, and does no harm: blanks, private use, and what a newer Unicode may know."""
NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z")
"""A DNS-1123 subdomain (kubernetes.io, "Object Names and IDs")."""
_KEY = re.compile(r"[A-Za-z0-9._/-]{1,128}\Z")


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


def shown_name(name: Any) -> str:
    """A name of an object, or what to show in its stead."""
    return name if isinstance(name, str) and NAME.match(name) else "(invalid name)"


_SECRET_KEYS = frozenset(("data", "stringData", "username", "password", "private-key.pem", "ca.crt", "value", "kubeconfig"))


def shown_secret_key(key: str) -> str:
    """The same for a key of a Secret, where text that slipped by a line would be a password."""
    return key if key in _SECRET_KEYS else "(another key)"


def shown_key(key: str) -> str:
    """A key of a mapping, or what to show in its stead."""
    return key if _KEY.match(key) else "(invalid key)"
