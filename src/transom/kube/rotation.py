"""Files that others rotate: whether one of them is another than it was."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

_LOOK_AGAIN: Final = 1.0
"""Seconds between two looks."""

State = tuple[int, int, int] | None


class RotatedFiles:
    """Client certificates, keys and CAs that connections were made from."""

    def __init__(self, paths: Iterable[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen = {path: _state(path) for path in paths}
        self._next = clock() + _LOOK_AGAIN

    def changed(self) -> bool:
        """Whether a file is another one; said until `RotatedFiles` are made anew. A file that is gone is on its way back."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + _LOOK_AGAIN
        return any((state := _state(path)) is not None and state != seen for path, seen in self._seen.items())


def _state(path: Path) -> State:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
