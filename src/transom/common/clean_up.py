"""Clean-up that continues if its caller is cancelled, with a separate time limit."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


async def run_to_end(work: Coroutine[Any, Any, _T], seconds: float | None, cancelled_seconds: float | None = None) -> _T:
    """Run `work` to its end, for at most so many seconds; a cancellation meanwhile is raised after that.

    Once it is cancelled, the work has `cancelled_seconds` left, where they are given. Raises TimeoutError, and what `work`
    raises; where it was cancelled, CancelledError alone.
    """

    async def run_with_limit() -> _T:
        async with asyncio.timeout(seconds):
            return await work

    task = asyncio.ensure_future(run_with_limit())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=cancelled_seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
