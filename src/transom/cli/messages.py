"""Messages for people on stderr, one line each, without the control characters of others."""

import sys

from transom.common.escaping import escape_unprintable


def print_to_stderr(line: str) -> None:
    """Write one line for people to stderr."""
    sys.stderr.write(escape_unprintable(line, keep="\t") + "\n")
