"""What a build says while it takes a while: of the image, and of what the lab needs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_EVERY_SECONDS = 60
"""How often something is said where nobody looks at a terminal, such as into the log of a CI."""
_position: ContextVar[str] = ContextVar("position", default="")


@contextmanager
def number_steps(number: int, count: int) -> Iterator[None]:
    """Mark every step in this block as part ``number`` of ``count``."""
    token = _position.set(f"[{number}/{count}] ")
    try:
        yield
    finally:
        _position.reset(token)


@contextmanager
def run_step(what: str) -> Iterator[None]:
    """Print a step to stderr, and its duration at the end.

    On a terminal the seconds count up; otherwise they are printed once a minute.
    """
    began = time.monotonic()
    done = threading.Event()
    title = f"{_position.get()}{what} …"
    terminal = sys.stderr.isatty()

    def count() -> None:
        while not done.wait(1 if terminal else _EVERY_SECONDS):
            seconds = f"{time.monotonic() - began:.0f} s"
            print(f"\r{title} {seconds}" if terminal else f" {seconds} …", end="", file=sys.stderr, flush=True)

    print(title, end="", file=sys.stderr, flush=True)
    counter = threading.Thread(target=count, daemon=True)
    counter.start()
    try:
        yield
    except BaseException:
        outcome = "failed"
        raise
    else:
        outcome = f"{time.monotonic() - began:.0f} s"
    finally:
        done.set()
        counter.join()
        if terminal:
            print(f"\r{title}", end="", file=sys.stderr)
        print(f" {outcome}", file=sys.stderr, flush=True)
