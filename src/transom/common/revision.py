"""The commit that this program was built from. `hatch_build.py` writes it into the wheel; a clone has none.

`transom --version` imports nothing else: pathlib and typing would take as long as Python itself.
"""

import os

from transom import __version__

FILE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "REVISION")  # noqa: PTH118, PTH120
_SHORT = 12
"""Characters of a commit that people read."""


def read_revision() -> str:
    """Return the commit, with `-dirty` if files were changed; empty if it is unknown."""
    try:
        with open(FILE, encoding="ascii") as file:  # noqa: PTH123
            return file.read().strip()
    except FileNotFoundError:
        return ""


def describe_version() -> str:
    """Return the version and, if it is known, the commit: `0.1.0 (1a2b3c4d5e6f)`."""
    revision = read_revision()
    commit, dash, state = revision.partition("-")
    return f"{__version__} ({commit[:_SHORT]}{dash}{state})" if revision else __version__
