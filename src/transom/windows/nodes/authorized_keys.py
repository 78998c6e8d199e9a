"""The lines of `administrators_authorized_keys` when a key is replaced by another: those of others are never touched.

A line is options, type, base64 and comment (sshd(8), "AUTHORIZED_KEYS FILE FORMAT"). A key is known by its type and base64,
in any position; the new one gets its options and comment. Line ends are unchanged. Keys are given as type
and base64, separated by one space.
"""

from collections.abc import Collection, Iterator
from typing import Final

_BLANKS: Final = b" \t\r\n"


def has_key(content: bytes, key: str) -> bool:
    """Return True if a line of the file has this key."""
    return any(_find_key(line, key) is not None for line in content.splitlines())


def insert_key_after(content: bytes, former: Collection[str], new: str) -> bytes | None:
    """Insert the new key after the first former key in the file; return None if it has no former key.

    A file that already has the new key is returned unchanged.
    """
    if has_key(content, new):
        return content
    lines = content.splitlines(keepends=True)
    for number, line in enumerate(lines):
        for key in former:
            if (place := _find_key(line, key)) is not None:
                ended = line if line.endswith((b"\n", b"\r")) else line + b"\r\n"
                added = line[: place[0]] + new.encode("ascii") + line[place[1] :]
                return b"".join((*lines[:number], ended, added, *lines[number + 1 :]))
    return None


def without_keys(content: bytes, keys: Collection[str]) -> bytes:
    """Return the file without the lines of these keys."""
    lines = content.splitlines(keepends=True)
    return b"".join(line for line in lines if all(_find_key(line, key) is None for key in keys))


def _find_key(line: bytes, key: str) -> tuple[int, int] | None:
    """Return the start and end of a key in a line; None for a comment or a line with another key."""
    type_, base64 = key.encode("ascii").split(b" ")
    for at in _iter_word_starts(line):
        words = line[at:].split(None, 2)
        if words[:2] == [type_, base64]:
            return at, line.index(base64, at + len(type_)) + len(base64)
    return None


def _iter_word_starts(line: bytes) -> Iterator[int]:
    """Yield the positions of the first and second word, since the first may be options."""
    first = len(line) - len(line.lstrip(_BLANKS))
    if line[first : first + 1] in (b"", b"#"):
        return
    yield first
    quoted = False
    for index in range(first, len(line)):
        letter = line[index : index + 1]
        if letter == b'"' and line[index - 1 : index] != b"\\":
            quoted = not quoted
        elif letter in (b" ", b"\t") and not quoted:
            rest = line[index:].lstrip(_BLANKS)
            if rest:
                yield len(line) - len(rest)
            return
