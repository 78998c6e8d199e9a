"""Waiting in tests: for what something else does, at its own time."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

PATIENCE = 180.0
"""Seconds: nothing that comes at all takes so long, on a machine that compiles something and stands still for a while, too."""
_FIRST, _LONGEST, _GROWTH = 0.03, 0.3, 1.3


async def until(condition: Callable[[], Any], seconds: float = PATIENCE, every: float | None = None) -> Any:
    """Wait for something to become true, and give it; what has to be awaited is. How long it took is never judged.

    `every` is the time between two looks, for what is true for a moment only. Without it that grows from 0.03 s to 0.3: a look
    is often a question to a server, and who has waited for a second may wait for a fifth more.
    """
    found, pause = None, every or _FIRST
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = condition()
                if inspect.isawaitable(found):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(pause)
                pause = every or min(pause * _GROWTH, _LONGEST)
    except TimeoutError:
        raise AssertionError(f"waited in vain for {seconds:g} s; the last answer was {found!r}") from None
