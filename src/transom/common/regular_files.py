"""Open regular files only: to read a FIFO, a device or a socket may wait for ever, or never end."""

import errno
import io
import os
import stat
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 64 << 20
"""Bytes that are read of a file into memory, unless the caller says otherwise."""
_DESCRIPTORS: Final = ("/dev/fd/", "/proc/self/fd/")
_KINDS: Final = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


def open_regular_file(path: str | Path) -> io.BufferedReader:
    """Open a regular file to read its bytes, without waiting. Raises OSError; its `strerror` says what else the path is.

    A path to a descriptor of this process (`/dev/stdin`, or `/dev/fd/63` of a shell's `<(command)`) may be a pipe: the
    user who started the command put it there.
    """
    text = os.fspath(path)
    is_own_descriptor = text == "/dev/stdin" or text.startswith(_DESCRIPTORS)
    # what the path is may change after a look at it, so open first; a FIFO without a writer would wait
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if is_own_descriptor else os.O_NONBLOCK | os.O_NOCTTY)
    try:
        descriptor = os.open(text, flags)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.EINVAL, "this is a socket, not a regular file", text) from None
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), text)
        if not stat.S_ISREG(mode) and not (is_own_descriptor and stat.S_ISFIFO(mode)):
            kind = next((name for test, name in _KINDS if test(mode)), "something else")
            raise OSError(errno.EINVAL, f"this is {kind}, not a regular file", text)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular_file(path: str | Path, limit: int = MAX_BYTES) -> bytes:
    """Return the bytes of a regular file. Raises OSError, also for one of more than `limit` bytes."""
    with open_regular_file(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"the file has more than {limit:,} bytes", os.fspath(path))
    return data


def read_regular_text(path: str | Path, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return the text of a regular file, with its line ends as `\\n`. Raises OSError, UnicodeDecodeError."""
    return read_regular_file(path).decode(encoding, errors).replace("\r\n", "\n").replace("\r", "\n")
