"""A directory that one process uses and says so by a lock: what one that was killed has left goes when the next one comes."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from lab import cache


def claim(parent: Path, prefix: str, others: str, end: Callable[[Path], None] = lambda _: None) -> tuple[Path, IO[str]]:
    """Create a directory and hold its lock, which ends with this process.

    Args:
       parent: the directory to create it in.
       prefix: the beginning of its name.
       others: a pattern of names; those of this user without a lock are removed.
       end: is called with each of these before it is removed, to end what still runs in it.
    """
    with cache.hold_lock("claims"):
        for directory in parent.glob(others):
            # FileNotFoundError: its owner is removing it right now
            with suppress(BlockingIOError, FileNotFoundError):
                if directory.stat().st_uid != os.geteuid():
                    continue
                with (directory / "lock").open("a") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    end(directory)
                    shutil.rmtree(directory, ignore_errors=True)
        own = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        held = (own / "lock").open("w")
        fcntl.flock(held, fcntl.LOCK_EX)
        return own, held
