"""The templates of the cmd scripts: fixed text with places for names, numbers and blocks."""

import importlib.resources
import re
from collections.abc import Mapping
from functools import cache

import msgspec

BASE = r"C:\ProgramData\Transom"
"""Where everything of ours lies that is not in the registry or of a payload."""

_BLANK_LINES = re.compile(r"^[ \t]*\n", re.MULTILINE)
_PLACEHOLDER = re.compile(r"@([A-Z]+)@")


class Script(msgspec.Struct, frozen=True):
    """A script's file name and its bytes."""

    name: str
    content: bytes


def render(name: str, values: Mapping[str, str]) -> bytes:
    """A template as the bytes of a script: CRLF, no empty lines."""
    return _BLANK_LINES.sub("", filled(name, values) + "\n").replace("\n", "\r\n").encode("ascii")


def filled(name: str, values: Mapping[str, str]) -> str:
    """A template with its places filled."""
    return _PLACEHOLDER.sub(lambda found: {"BASE": BASE, **values}[found[1]], template(name))


@cache
def template(name: str) -> str:
    """The text of a template."""
    return (importlib.resources.files("transom.hosts") / "scripts" / name).read_text("ascii")
