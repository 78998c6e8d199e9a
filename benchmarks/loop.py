"""How long a loop is not free: `python -m benchmarks.loop FILE ARGUMENTS…` runs `transom` with these, and says it in FILE.

A callback counts by the CPU time of its thread: while the machine stands still, so does the clock. The file is written anew
each time that something took longer, and has a line for each of the longest: seconds, since when, and what it was.
"""

import asyncio
import asyncio.events
import heapq
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from transom.__main__ import main as transom

_KEPT: Final = 20
_LEAST: Final = 0.01


class Longest:
    """The longest callbacks of all loops of this process."""

    def __init__(self, told: Callable[[str], object]) -> None:
        self._told = told
        self._begun = time.monotonic()
        self._kept: list[tuple[float, float, str]] = []

    def watch(self) -> None:
        """Measure from now on."""
        run, longest = asyncio.events.Handle._run, self

        def timed(handle: Any) -> None:
            begun = time.thread_time()
            run(handle)
            if (took := time.thread_time() - begun) > _LEAST:
                longest._note(took, _what(handle._callback))

        asyncio.events.Handle._run = timed  # type: ignore[method-assign]

    def _note(self, took: float, what: str) -> None:
        one = took, time.monotonic() - self._begun, what
        if len(self._kept) < _KEPT:
            heapq.heappush(self._kept, one)
        elif heapq.heappushpop(self._kept, one) is one:
            return
        lines = (f"{seconds:.3f} {since:.1f} {text}" for seconds, since, text in sorted(self._kept, reverse=True))
        self._told("\n".join(lines) + "\n")


def _what(callback: Any) -> str:
    """A task by where its coroutine waits now, anything else by its own name."""
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return repr(callback)
    frames = task.get_stack(limit=1)
    where = f" {frames[0].f_code.co_qualname} line {frames[0].f_lineno}" if frames else ""
    return f"{task.get_coro()}{where}"


def main() -> None:
    file = Path(sys.argv.pop(1))
    Longest(file.write_text).watch()
    transom()


if __name__ == "__main__":
    main()
