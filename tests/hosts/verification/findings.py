"""What was found to differ between Windows and the benches: the code of before, and the tests that fail with it."""

from pathlib import Path
from typing import Final

import msgspec

_FILE: Final = Path(__file__).with_name("findings.yaml")


class Before(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file below `src/transom`, lines that it has once, and what stood there before."""

    file: str
    line: str
    becomes: str


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`tests` fail with each of `before`; `benches` are the tests of the rule itself, as a bench has it."""

    before: tuple[Before, ...]
    tests: tuple[str, ...]
    benches: tuple[str, ...] = ()


def findings() -> dict[str, Finding]:
    """All of them, by what was found."""
    return msgspec.yaml.decode(_FILE.read_bytes(), type=dict[str, Finding])
