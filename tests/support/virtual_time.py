"""An event loop whose clock jumps to the next timer where nothing else is to be done.

Minutes of a simulated host then cost only what is computed in them, and the time of computing counts for nothing.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")
_DELIVERY_SECONDS = 0.001
"""Real seconds in which what was sent to a socket of this process arrives."""
_THREAD_SECONDS = 5.0
"""Real seconds in which a thread of this process, or a busy machine, gets on: so long no limit of minutes is jumped to."""
_FAR_SECONDS = 2.0


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that lets the clock of its loop jump instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        events = super().select(_DELIVERY_SECONDS if timeout < _FAR_SECONDS else _THREAD_SECONDS)
        if not events:
            self.now += timeout
        return events


class _VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_in_virtual_time(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run `work` to its end in a loop of its own, and return its result."""
    with asyncio.Runner(loop_factory=_VirtualTimeLoop) as runner:
        return runner.run(work)
