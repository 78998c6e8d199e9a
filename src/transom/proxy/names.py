"""Names as they may be shown: what has not the form of a name could be anything, a password too."""

import re
from typing import Any

NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z")
"""A DNS-1123 subdomain (kubernetes.io, "Object Names and IDs")."""
_KEY = re.compile(r"[A-Za-z0-9._/-]{1,128}\Z")


def shown_name(name: Any) -> str:
    """A name of an object, or what to show in its stead."""
    return name if isinstance(name, str) and NAME.match(name) else "(invalid name)"


def shown_key(key: str) -> str:
    """A key of a mapping, or what to show in its stead."""
    return key if _KEY.match(key) else "(invalid key)"
