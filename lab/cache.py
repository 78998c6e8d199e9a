"""Where the lab keeps what is costly to make: programs, the template machine, and the machines copied from it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

KEY_LENGTH = 16


def directory() -> Path:
    """``$XDG_CACHE_HOME/transom-lab``, or the same under ``~/.cache``; made where it is missing."""
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "transom-lab"
    path.mkdir(parents=True, exist_ok=True)
    return path


def digest(parts: Iterable[str | Path]) -> str:
    """A short hash of strings, of files and of all files below directories: the key of what is made from them."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            total.update(part.encode() + b"\0")
            continue
        for file in sorted(p for p in (part.rglob("*") if part.is_dir() else [part]) if p.is_file()):
            total.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:KEY_LENGTH]


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Keep other processes that ask for the same name waiting. The lock goes with the process that holds it."""
    with (directory() / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def entry(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The directory ``<name>-<key>`` of the cache, made by ``make(directory)`` where it is missing.

    It appears under its name only when it is complete, and is made once, however many processes ask for it.
    """
    path = directory() / f"{name}-{key}"
    if path.exists():
        os.utime(path)
        return path
    with locked(name):
        if path.exists():
            return path
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=directory()))
        try:
            make(unfinished)
            unfinished.rename(path)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        _forget(name, path)
    return path


def _forget(name: str, kept: Path) -> None:
    """Remove what older sources gave under this name, where nobody has asked for it for a day."""
    for path in directory().glob(f"{name}-{'[0-9a-f]' * KEY_LENGTH}"):
        if path != kept and path.stat().st_mtime < time.time() - 86_400:
            shutil.rmtree(path, ignore_errors=True)
