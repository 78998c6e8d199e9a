"""The keys that have to be worked on: each once, never twice at a time, the urgent ones first."""

import asyncio
import heapq
import itertools
import math
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Final, Generic, TypeVar

from transom.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)

BACKOFF: Final = Backoff(1.0, 300.0)


class Priority(IntEnum):
    """The smaller goes first: a change that somebody waits for is never behind a thousand periodic checks.

    `TURN` is for a key for which others wait that were asked for before it.
    """

    TURN = 0
    CHANGE = 1
    RETRY = 2
    CHECK = 3


class QueueClosed(Exception):
    """No more keys are handed out."""


class _State:
    """What is known of a key that waits, is worked on, or has failed."""

    __slots__ = ("due", "failures", "priority", "ticket", "timer", "working")

    def __init__(self) -> None:
        self.priority: Priority | None = None
        self.ticket = 0
        self.timer: asyncio.TimerHandle | None = None
        self.due = 0.0
        self.working = False
        self.failures = 0


class KeyQueue(Generic[K]):
    """Keys for workers on one event loop.

    A key that is added while it waits at most becomes more urgent. One that is added while somebody works on it comes once more
    when that has ended. Each `take` has to be answered by one `done`. A pass over a key satisfies what was asked for before it
    began, delayed or not.
    """

    def __init__(self, backoff: Backoff = BACKOFF) -> None:
        self._backoff = backoff
        self._states: dict[K, _State] = {}
        self._ready: list[tuple[Priority, int, K]] = []
        self._tickets = itertools.count(1)
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._depth = 0
        self._working = 0
        self._resting = 0
        self._closed = False

    def __len__(self) -> int:
        """How many keys could be taken now."""
        return self._depth

    @property
    def working(self) -> int:
        """How many keys are being worked on."""
        return self._working

    @property
    def failing(self) -> int:
        """How many keys failed the last time."""
        return sum(1 for state in self._states.values() if state.failures)

    def failures(self, key: K) -> int:
        """How often in a row a key has failed."""
        state = self._states.get(key)
        return state.failures if state else 0

    def add(self, key: K, priority: Priority = Priority.CHANGE, after: float = 0.0) -> None:
        """Have a key worked on, at once or `after` so many seconds. Of several delays for one key the shortest holds."""
        state = self._states.setdefault(key, _State())
        if after > 0:
            self._delay(key, state, priority, after)
        elif state.priority is None or priority < state.priority:
            self._make_ready(key, state, priority)

    def forget(self, key: K) -> None:
        """Drop a key: it is not handed out any more, and its failures are forgotten. A pass that runs is not disturbed."""
        state = self._states.get(key)
        if state is None:
            return
        self._stop_timer(state)
        if state.priority is not None:
            state.priority = None
            self._depth -= not state.working
        state.failures = 0
        self._drop_if_empty(key, state)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """A pass only waits meanwhile, for seconds: another key has its place.

        It goes on at once when the wait is over: what such a pass has left to do is short.
        """
        self._resting += 1
        self._wake()
        try:
            yield
        finally:
            self._resting -= 1

    async def take(self, places: float = math.inf) -> K:
        """The most urgent key, of equals the one that waits longest, once fewer than `places` are worked on that do not rest.

        Raises QueueClosed.
        """
        while True:
            if self._closed:
                raise QueueClosed
            if self._working - self._resting < places and (key := self._pop()) is not None:
                return key
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    # woken and cancelled at once: somebody else has to see to the key
                    self._wake()
                elif waiter in self._waiters:
                    self._waiters.remove(waiter)
                raise

    def done(self, key: K, *, failed: bool = False, again: float | None = None, at_least: float | None = None) -> None:
        """Say that a pass over a key has ended.

        Where it `failed`, the key comes again after the backoff, which is `at_least` so many seconds. Else it comes in `again`
        seconds, or, where that is None, when it is added. Raises ValueError where nobody works on the key.
        """
        state = self._states[key]
        if not state.working:
            raise ValueError(f"nobody works on {key!r}")
        state.working = False
        self._working -= 1
        if failed:
            state.failures += 1
            self._delay(key, state, Priority.RETRY, self._backoff.seconds(state.failures, at_least))
        else:
            state.failures = 0
            if again is not None:
                self._delay(key, state, Priority.CHECK, again)
        if state.priority is not None:
            priority, state.priority = state.priority, None
            self._make_ready(key, state, priority)
        self._drop_if_empty(key, state)
        if self._depth:
            self._wake()

    def close(self) -> None:
        """Hand out no more keys. Passes that run go on."""
        self._closed = True
        for state in self._states.values():
            self._stop_timer(state)
        while self._waiters:
            self._wake()

    def _make_ready(self, key: K, state: _State, priority: Priority) -> None:
        new = state.priority is None
        state.priority = priority
        if state.working:
            return
        self._depth += new
        state.ticket = next(self._tickets)
        heapq.heappush(self._ready, (priority, state.ticket, key))
        self._wake()

    def _pop(self) -> K | None:
        while self._ready:
            _, ticket, key = heapq.heappop(self._ready)
            state = self._states.get(key)
            # an entry that was overtaken by a more urgent one for the same key, or whose key was dropped
            if state is None or state.ticket != ticket or state.priority is None:
                continue
            state.priority = None
            state.working = True
            self._stop_timer(state)
            self._depth -= 1
            self._working += 1
            return key
        return None

    def _delay(self, key: K, state: _State, priority: Priority, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if state.timer is not None and state.due <= due:
            return
        self._stop_timer(state)
        state.due = due
        state.timer = loop.call_at(due, self._due, key, priority)

    def _due(self, key: K, priority: Priority) -> None:
        state = self._states[key]
        state.timer = None
        self.add(key, priority)

    def _stop_timer(self, state: _State) -> None:
        if state.timer is not None:
            state.timer.cancel()
            state.timer = None

    def _drop_if_empty(self, key: K, state: _State) -> None:
        if state.priority is None and state.timer is None and not state.working and not state.failures:
            del self._states[key]

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
