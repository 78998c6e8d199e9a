"""What a host said, read beside the event loop: whatever it is, all other hosts go on meanwhile."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from transom.hosts.errors import Unreadable

_Read = TypeVar("_Read")
_AT_ONCE: Final = 64 * 1024
"""Bytes that are read in less time than another thread is worth: some 10 ms at worst."""
_SECONDS: Final = 1.0
"""Of CPU for one answer."""
# one thread: answers that take long take turns, and the loop has a rival at most
_thread: Final = ThreadPoolExecutor(1, "answers")


async def understood(read: Callable[[], _Read], size: int) -> _Read:
    """What `read` makes of `size` bytes. Raises Unreadable where that took too long, and what `read` raises."""
    if size <= _AT_ONCE:
        return read()

    def timed() -> tuple[_Read, float]:
        begun = time.thread_time()
        return read(), time.thread_time() - begun

    found, seconds = await asyncio.get_running_loop().run_in_executor(_thread, timed)
    if seconds > _SECONDS:
        raise Unreadable(f"the host's answer took {seconds:.1f} s of CPU to read; there is something wrong with its registry")
    return found
