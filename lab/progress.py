"""What the lab says while it makes something that takes a while."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say on stderr what is being done, and at the end how long it took. On a terminal the seconds count up."""
    began = time.monotonic()
    done = threading.Event()
    terminal = sys.stderr.isatty()

    def count() -> None:
        while not done.wait(1):
            print(f"\r{what} … {time.monotonic() - began:.0f} s", end="", file=sys.stderr, flush=True)

    print(f"{what} …", end="", file=sys.stderr, flush=True)
    counter = threading.Thread(target=count, daemon=True)
    if terminal:
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
        if terminal:
            counter.join()
            print(f"\r{what} …", end="", file=sys.stderr)
        print(f" {outcome}", file=sys.stderr, flush=True)
