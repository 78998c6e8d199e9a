"""The templates of the cmd scripts: fixed text with places for names, numbers and blocks."""

import importlib.resources
import re
from collections.abc import Mapping
from functools import cache

import msgspec

from transom.hosts.scripts.results import named

BASE = r"C:\Windows\Transom"
"""Where everything of ours lies that is not in the registry or of a payload: administrators alone make directories there.

The Windows directory's default access list: DISA, "Windows Server 2022 STIG", WN22-00-000160 (2019: WN19-00-000160). Its path
has to be known before anything is run. SFTP cannot ask for it, and no Windows Server with containers has it elsewhere; where it
is, the first script does nothing but say so.
"""
FORMER = r"C:\ProgramData\Transom"
"""Where it lay in earlier versions. Everybody may make directories there: nothing in it is run or read."""
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
    places = {"BASE": BASE, "FORMER": FORMER, **values}
    return _PLACEHOLDER.sub(lambda found: places[found[1]], template(name))


@cache
def template(name: str) -> str:
    """The text of a template, with its words."""
    return named((importlib.resources.files("transom.hosts") / "scripts" / name).read_text("ascii"))
