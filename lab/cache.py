"""Where the lab keeps what is costly to make: programs, the template machine, and the machines copied from it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from image.progress import run_step

KEY_LENGTH = 16


def get_directory() -> Path:
    """Return ``$XDG_CACHE_HOME/transom-lab`` or ``~/.cache/transom-lab``; create it if it is missing."""
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "transom-lab"
    path.mkdir(parents=True, exist_ok=True)
    return path


def digest(parts: Iterable[str | Path]) -> str:
    """Compute a short hash of strings, of files and of all files below directories, used as a cache key."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            total.update(part.encode() + b"\0")
            continue
        for file in sorted(p for p in (part.rglob("*") if part.is_dir() else [part]) if p.is_file()):
            total.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:KEY_LENGTH]


@contextmanager
def hold_lock(name: str, waiting: str = "") -> Iterator[None]:
    """Hold the lock of a name until the block ends; other processes wait for it.

    The lock ends with the process that holds it. ``waiting`` is printed while this process waits.
    """
    with (get_directory() / f"{name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with run_step(waiting) if waiting else nullcontext():
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def get_entry(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return the directory ``<name>-<key>`` of the cache, built by ``make(directory)`` if it is missing.

    It appears under its name only when it is complete, and is built once, however many processes ask for it. The next build
    removes what a killed process left unfinished.
    """
    path = get_directory() / f"{name}-{key}"
    if path.exists():
        os.utime(path)
        return path
    with hold_lock(name, waiting=f"waiting for another process that makes {name}"):
        if path.exists():
            return path
        _clear(name)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=get_directory()))
        try:
            make(unfinished)
            unfinished.rename(path)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        _forget(name, path)
    return path


def _clear(name: str) -> None:
    """Remove what is half made under this name, with the processes that still work on it; its lock is ours."""
    # as tempfile ends its names: what is made under `template` is not under `template-bare`
    half_made = re.compile(rf"\.{re.escape(name)}-[a-z0-9_]{{8}}")
    for path in get_directory().iterdir():
        if half_made.fullmatch(path.name):
            _end_processes(path)
            shutil.rmtree(path, ignore_errors=True)


def _end_processes(directory: Path) -> None:
    """Kill the processes whose working directory is below a directory or whose environment contains its path."""
    for process in Path("/proc").glob("[0-9]*"):
        # OSError: it has ended, or is somebody else's
        with suppress(OSError):
            inside = (process / "cwd").readlink().is_relative_to(directory)
            if inside or os.fsencode(directory) in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


def _forget(name: str, kept: Path) -> None:
    """Remove the entries of this name with other keys that were not used for a day."""
    for path in get_directory().glob(f"{name}-{'[0-9a-f]' * KEY_LENGTH}"):
        if path != kept and path.stat().st_mtime < time.time() - 86_400:
            shutil.rmtree(path, ignore_errors=True)
