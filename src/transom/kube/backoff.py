"""How long to wait: after a failure, and for something that may come earlier."""

import asyncio
import random
from collections.abc import Callable

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    """Seconds to wait after the first, second, … failure in a row: doubled each time up to `most`, and spread over time.

    A wait lies between half of that and all of it ("equal jitter"). What the server asks for by Retry-After is the least.
    """

    first: float = 1.0
    most: float = 30.0
    draw: Callable[[], float] = random.random
    """Gives a number from 0 to below 1."""

    def compute_seconds(self, failures: int, min_seconds: float | None = None) -> float:
        """Return the wait after `failures` (1 or more) failures in a row."""
        whole: float = min(self.most, self.first * 2.0 ** min(failures - 1, 30))
        wait = whole * (0.5 + 0.5 * self.draw())
        if min_seconds is not None and min_seconds > wait:
            # the same time for everybody would bring them all back at once
            return min_seconds + 0.1 * whole * self.draw()
        return wait


async def wait_for_event(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for an event, at most so many seconds (None: however long). True where it is set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
