"""The templates of the cmd scripts: fixed text with places for names, numbers and blocks."""

import importlib.resources
import re
from collections.abc import Mapping
from functools import cache

import msgspec

from transom.hosts.scripts.results import substitute_words

BASE = r"C:\Windows\Transom"
"""The directory of Transom's files, except those of payloads: only administrators can create directories there.

The Windows directory's default access list: DISA, "Windows Server 2022 STIG", WN22-00-000160 (2019: WN19-00-000160). Its path
must be known before any command runs. SFTP cannot query it, and Windows Server with containers always has it here; if it
does not, the first script only reports that.
"""
FORMER = r"C:\ProgramData\Transom"
"""Where it lay in earlier versions. Everybody may make directories there: nothing in it is run or read."""
_BLANK_LINES = re.compile(r"^[ \t]*\n", re.MULTILINE)
_PLACEHOLDER = re.compile(r"@([A-Z]+)@")


class Script(msgspec.Struct, frozen=True):
    """A script's file name and its bytes."""

    name: str
    content: bytes


def render_script(name: str, values: Mapping[str, str]) -> bytes:
    """Render a template as the bytes of a script: CRLF, no empty lines."""
    return _BLANK_LINES.sub("", fill_template(name, values) + "\n").replace("\n", "\r\n").encode("ascii")


def fill_template(name: str, values: Mapping[str, str]) -> str:
    """Fill the placeholders of a template."""
    places = {"BASE": BASE, "FORMER": FORMER, **values}
    return _PLACEHOLDER.sub(lambda item: places[item[1]], read_template(name))


@cache
def read_template(name: str) -> str:
    """Read a template and substitute its result words."""
    return substitute_words((importlib.resources.files("transom.hosts") / "scripts" / name).read_text("ascii"))
