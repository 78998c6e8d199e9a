"""Names as they may be shown: what has not the form of a name could be anything, a password too."""

import re
from typing import Any

NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z")
"""A DNS-1123 subdomain (kubernetes.io, "Object Names and IDs")."""
_KEY = re.compile(r"[A-Za-z0-9._/-]{1,128}\Z")


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
