"""The text of a profile of Windows PowerShell: a block of Transom's between two marker lines, and what people wrote around it.

The block is ASCII and is written in the file's encoding, with its line ends; all other bytes are unchanged. Windows
PowerShell reads a file without a byte order mark in the code page of the machine (Microsoft Learn, about_Character_Encoding),
and one with a mark as .NET's StreamReader does.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

BEGIN: Final = "# Transom begin"
"""How the first line of a block begins."""
END: Final = "# Transom end"
"""The last line of a block."""
_SIGNATURE: Final = "# SIG # Begin signature block"
"""The line after which Set-AuthenticodeSignature puts a signature (Microsoft Learn, about_Signing)."""
_MARKS: Final = (
    # the longer one of two that begin alike comes first
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
    # each byte is a character: what is not ASCII is not looked at
    (b"\xef\xbb\xbf", "latin-1"),
    (b"", "latin-1"),
)


class UnusableProfile(Exception):
    """A profile in which nothing can be changed. The message says why, as the end of a sentence about the file."""


class ProfileText(msgspec.Struct, frozen=True):
    """A profile in three parts; `block` is None without a block. The parts have the line ends of the file."""

    mark: bytes
    encoding: str
    before: str
    block: str | None = None
    after: str = ""

    @property
    def line_end(self) -> str:
        """The line end of the file: a line feed alone only if no line ends otherwise."""
        text = self.before + (self.block or "") + self.after
        return "\n" if "\n" in text and "\r\n" not in text else "\r\n"

    @property
    def is_incomplete_line(self) -> bool:
        """Return True if the last line before the block, or of the file, has no line end."""
        return bool(self.before) and not self.before.endswith("\n")

    @property
    def is_empty(self) -> bool:
        """Return True if people wrote nothing in the file."""
        return not self.before and not self.after

    def with_block(self, block: str) -> "ProfileText":
        """Return the profile with a block of lines that end with a line feed, in place of its own or at the end."""
        line_end = self.line_end
        before = self.before + line_end if self.block is None and self.is_incomplete_line else self.before
        return msgspec.structs.replace(self, before=before, block=block.replace("\n", line_end))

    def without_block(self, *, joined: bool) -> "ProfileText":
        """Return the profile without its block; `joined`: the line end before the block came with it."""
        before = self.before
        if joined and not self.after:
            before = before.removesuffix("\n").removesuffix("\r")
        return msgspec.structs.replace(self, before=before, block=None)

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        text = self.before + (self.block or "") + self.after
        errors = "strict" if self.encoding == "latin-1" else "surrogatepass"
        return self.mark + text.encode(self.encoding, errors)


def parse_profile(data: bytes, is_own: Callable[[str], bool]) -> ProfileText:
    """Parse a profile. Of several blocks the last one that `is_own` counts, else the last one. Raises UnusableProfile."""
    mark, encoding = next((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark))
    try:
        text = data[len(mark) :].decode(encoding, "strict" if encoding == "latin-1" else "surrogatepass")
    except UnicodeDecodeError:
        raise UnusableProfile(f"is not {encoding.upper()}, which its first bytes announce") from None
    if "\0" in text:
        raise UnusableProfile("has null characters, so it is not a script that PowerShell reads")
    if any(line.strip() == _SIGNATURE for line in text.split("\n")):
        raise UnusableProfile("is signed, and a change would make its signature invalid")
    blocks = list(_iter_blocks(text))
    if not blocks:
        return ProfileText(mark, encoding, text)
    own = [item for item in blocks if is_own(normalize_block(text[slice(*item)]))]
    start, end = (own or blocks)[-1]
    return ProfileText(mark, encoding, text[:start], text[start:end], text[end:])


def normalize_block(block: str) -> str:
    """Return a block with line feeds as line ends: the text that `with_block` was called with."""
    return block.replace("\r\n", "\n").removesuffix("\n") + "\n"


def _iter_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each block: from the last first line before a last line."""
    start, position = None, 0
    for line in text.split("\n"):
        end = min(position + len(line) + 1, len(text))
        if line.startswith(BEGIN):
            start = position
        elif line.rstrip() == END and start is not None:
            yield start, end
            start = None
        position = end
