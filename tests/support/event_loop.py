"""Measure what untrusted input costs this process: its longest callback of an event loop, and the memory that it took.

A callback counts by the CPU time of its thread, not by the clock: a machine with other work to do changes neither figure.
Objects that earlier tests left are not searched for garbage: with those of a whole suite that takes half a second.
"""

import asyncio
import asyncio.events
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Cost:
    """What happened since `measure_cost` began; complete when its block has ended."""

    longest: float = 0.0
    """CPU seconds of the longest callback of any event loop of this process."""
    callback: str = ""
    """Which one that was."""
    total: float = 0.0
    """CPU seconds of all callbacks."""
    growth: int = 0
    """Bytes by which the peak of the resident memory was above what there was at the beginning."""


@contextmanager
def measure_cost() -> Iterator[Cost]:
    """Measure every callback of this process's event loops while the block runs."""
    cost = Cost()
    run = asyncio.events.Handle._run

    def run_and_measure(handle: Any) -> None:
        started = time.thread_time()
        run(handle)
        seconds = time.thread_time() - started
        cost.total += seconds
        if seconds > cost.longest:
            cost.longest, cost.callback = seconds, describe_callback(handle._callback)

    gc.collect()
    gc.freeze()
    # with none left, garbage is collected as often as in a new process (long_lived_total in CPython's gcmodule.c)
    gc.collect()
    # the peak becomes what there is now (proc_pid_clear_refs(5))
    Path("/proc/self/clear_refs").write_text("5")
    before = read_memory("VmRSS")
    asyncio.events.Handle._run = run_and_measure  # type: ignore[method-assign]
    try:
        yield cost
    finally:
        asyncio.events.Handle._run = run  # type: ignore[method-assign]
        gc.unfreeze()
        cost.growth = read_memory("VmHWM") - before


def read_memory(field: str, process: int | str = "self") -> int:
    """Return a field of `/proc/PROCESS/status` in bytes: VmRSS is the resident memory, VmHWM its peak."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def describe_callback(callback: Any) -> str:
    """Return the name of a callback; of a step of a task, the coroutine and the line where it waits now."""
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return repr(callback)
    frames = task.get_stack(limit=1)
    where = f" {frames[0].f_code.co_qualname} line {frames[0].f_lineno}" if frames else ""
    return f"{task.get_coro()}{where}"
