"""PEM as people paste it into objects and files: encoded twice, without its line breaks, or only the path of a file."""

import binascii
import re
from typing import Final

LOST_LINE_BREAKS: Final = (
    "has lost its line breaks: BEGIN and END are lines of their own; in YAML, write it as a block with `|`"
)
FILE_PATH: Final = "is the path of a file: put the content of the file there"
_PATH = re.compile(r"(?:file:|~?/|\.{1,2}/|[A-Za-z]:\\)[^\n]*|[\w./\\-]+\.(?:pem|crt|cer|der|key|p7b|ppk)", re.IGNORECASE)
_LONGEST_PATH: Final = 4_096


def is_encoded_pem(text: str, label: str) -> bool:
    """Return True if a string is base64 of PEM whose BEGIN line ends with `label`."""
    try:
        inner = binascii.a2b_base64("".join(text.split()), strict_mode=True)
    except ValueError:
        return False
    return f"{label}-----".encode() in inner


def is_file_path(text: str) -> bool:
    """Return True if a string looks like the path of a file, absolute or with the suffix of a certificate or key."""
    path = text.strip()
    return len(path) <= _LONGEST_PATH and _PATH.fullmatch(path) is not None
