"""Messages for people on stderr, one line each, without the control characters of others and without passwords in URLs."""

import sys

from transom.cli.credential_masks import mask_passwords
from transom.common.escaping import escape_unprintable


def print_to_stderr(line: str) -> None:
    """Write one line for people to stderr."""
    sys.stderr.write(escape_unprintable(mask_passwords(line), keep="\t") + "\n")
