"""The lines of `administrators_authorized_keys` when a key is replaced by another: those of others are never touched.

A line is options, type, base64 and comment (sshd(8), "AUTHORIZED_KEYS FILE FORMAT"). A key is known by its type and base64,
whatever stands around it; options and comment go over to the new one. Line ends are kept as they are. Keys are given as type
and base64 with one blank between.
"""

from collections.abc import Collection, Iterator
from typing import Final

_BLANKS: Final = b" \t\r\n"


def holds(content: bytes, key: str) -> bool:
    """Whether a line of the file is this key's."""
    return any(_place(line, key) is not None for line in content.splitlines())


def beside(content: bytes, former: Collection[str], new: str) -> bytes | None:
    """The file with the new key right behind the first of the former ones; None where none of those is in it.

    A file that has the new key stays as it is.
    """
    if holds(content, new):
        return content
    lines = content.splitlines(keepends=True)
    for number, line in enumerate(lines):
        for key in former:
            if (place := _place(line, key)) is not None:
                ended = line if line.endswith((b"\n", b"\r")) else line + b"\r\n"
                added = line[: place[0]] + new.encode("ascii") + line[place[1] :]
                return b"".join((*lines[:number], ended, added, *lines[number + 1 :]))
    return None


def without(content: bytes, keys: Collection[str]) -> bytes:
    """The file without the lines of these keys."""
    lines = content.splitlines(keepends=True)
    return b"".join(line for line in lines if all(_place(line, key) is None for key in keys))


def _place(line: bytes, key: str) -> tuple[int, int] | None:
    """Where a key stands in a line; None where the line is another's, or a comment."""
    type_, base64 = key.encode("ascii").split(b" ")
    for at in _words(line):
        found = line[at:].split(None, 2)
        if found[:2] == [type_, base64]:
            return at, line.index(base64, at + len(type_)) + len(base64)
    return None


def _words(line: bytes) -> Iterator[int]:
    """Where the first word begins, and the one after it, since the first may be options."""
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
