"""A virus scanner that opens each file that came over SFTP, as soon as it is closed, and reads it for a while.

It lets others read and write, but neither remove nor rename, as those do that make the retries of others needed
(libuv/libuv#1981, golang/go#16882).
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path


class Scanner:
    """The files that are being read. ``order`` is a file with the seconds; it need not exist."""

    def __init__(self, order: Path) -> None:
        self._order = order
        self._reading: set[int] = set()

    def look(self, file: Path) -> None:
        """Begin with a file that was written and closed."""
        if not self._order.exists():
            return
        descriptor = os.open(file, os.O_RDONLY)
        self._reading.add(descriptor)
        asyncio.get_running_loop().call_later(float(self._order.read_text()), self._end, descriptor)

    def list_descriptors(self) -> list[Path]:
        """Return the open files, as links below /proc."""
        return [Path(f"/proc/self/fd/{descriptor}") for descriptor in self._reading]

    def _end(self, descriptor: int) -> None:
        self._reading.remove(descriptor)
        os.close(descriptor)
