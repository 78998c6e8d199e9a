"""Waiting in tests: for what something else does, at its own time."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def until(condition: Callable[[], Any], seconds: float = 60, every: float = 0.02) -> Any:
    """Wait for something to become true, and give it; what has to be awaited is. How long it took is never judged.

    `every` is the time between two looks: less for what is true for a moment only.
    """
    found = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = condition()
                if inspect.isawaitable(found):
                    found = await found
                if found:
                    return found
                await asyncio.sleep(every)
    except TimeoutError:
        raise AssertionError(f"waited in vain for {seconds:g} s; the last answer was {found!r}") from None
