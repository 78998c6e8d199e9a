"""Whether a host still answers: what is waited for may take so many seconds without progress."""

import asyncio
from collections.abc import Callable


class Silence:
    """The limit of one connection. One timer watches all that is waited for: a pass waits for dozens of answers.

    `broken` is called when one of them has not come for `seconds`: it has to end the connection, by which who waits learns it.
    """

    def __init__(self, seconds: float, broken: Callable[[], object]) -> None:
        self.told = False
        """Whether something did not come in time."""
        self._seconds, self._broken = seconds, broken
        self._loop = asyncio.get_running_loop()
        self._since: dict[object, float] = {}
        """When the last progress was of each thing, the earliest first."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, what: object) -> None:
        """Something is waited for from now on, or has made progress."""
        self._since.pop(what, None)
        self._since[what] = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._look)

    def end(self, what: object) -> None:
        """It has come, or is not waited for any more."""
        del self._since[what]

    def stop(self) -> None:
        """The connection ends."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        since = next(iter(self._since.values()), None)
        if since is None:
            self._timer = None
        elif (left := since + self._seconds - self._loop.time()) > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self.told = True
            self._broken()
