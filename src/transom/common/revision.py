"""The commit that this program was built from. `hatch_build.py` writes it into the wheel; a clone has none."""

from functools import cache
from pathlib import Path
from typing import Final

from transom import __version__

FILE: Final = Path(__file__).parents[1] / "REVISION"
_SHORT: Final = 12
"""Characters of a commit that people read."""


@cache
def read_revision() -> str:
    """Return the commit, with `-dirty` if files were changed; empty if it is unknown."""
    try:
        return FILE.read_text("ascii").strip()
    except FileNotFoundError:
        return ""


def describe_version() -> str:
    """Return the version and, if it is known, the commit: `0.1.0 (1a2b3c4d5e6f)`."""
    revision = read_revision()
    commit, dash, state = revision.partition("-")
    return f"{__version__} ({commit[:_SHORT]}{dash}{state})" if revision else __version__
