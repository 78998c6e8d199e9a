"""What was found wrong: the code of before, and the tests that fail with it.

Of hosts, where Windows and the benches differed; of workers of Cluster API, where upstream and what was generated did.
"""

from pathlib import Path
from typing import Final

import msgspec

_FILES: Final = (Path(__file__).with_name("findings.yaml"), Path(__file__).parents[2] / "capi" / "findings.yaml")


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
    found: dict[str, Finding] = {}
    for file in _FILES:
        found |= msgspec.yaml.decode(file.read_bytes(), type=dict[str, Finding])
    return found
