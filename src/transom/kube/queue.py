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
    """The priority of a key, smallest first: awaited changes never wait behind a thousand periodic checks.

    `TURN` is for a key that blocks keys that were added before it. A `CHANGE` of a key that failed the last time waits as a
    `RETRY`: keys whose passes end in a timeout would occupy every worker while the others wait.
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

    Adding a waiting key can only raise its priority. A key that is added during its pass is processed once more after it.
    Each `take` needs one `finish`. A pass over a key satisfies all requests before its start, delayed or not.
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
        """Return how many keys could be taken now."""
        return self._depth

    @property
    def working(self) -> int:
        """How many keys are being worked on."""
        return self._working

    @property
    def failing(self) -> int:
        """How many keys failed the last time."""
        return sum(1 for state in self._states.values() if state.failures)

    def count_failures(self, key: K) -> int:
        """Count the failures in a row of a key."""
        state = self._states.get(key)
        return state.failures if state else 0

    def add(self, key: K, priority: Priority = Priority.CHANGE, after: float = 0.0) -> None:
        """Have a key worked on, at once or `after` so many seconds. Of several delays for one key the shortest holds."""
        state = self._states.setdefault(key, _State())
        if after > 0:
            self._schedule(key, state, priority, after)
        elif state.priority is None or priority < state.priority:
            self._make_ready(key, state, priority)

    def retry_failed(self) -> None:
        """Hand out each key that failed and waits for its backoff: the cause of the failures is gone."""
        for key, state in list(self._states.items()):
            if state.failures and state.timer is not None:
                self.add(key, Priority.RETRY)

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
        self._discard_idle_state(key, state)

    @contextmanager
    def release_slot(self) -> Iterator[None]:
        """Release the slot of a pass that only waits for seconds, so that another key gets it.

        The pass continues at once after the wait: its remaining work is short.
        """
        self._resting += 1
        self._wake()
        try:
            yield
        finally:
            self._resting -= 1

    async def take(self, max_concurrent: float = math.inf) -> K:
        """Take the most urgent, longest waiting key, once fewer than `max_concurrent` keys hold a slot.

        Raises QueueClosed.
        """
        while True:
            if self._closed:
                raise QueueClosed
            if self._working - self._resting < max_concurrent and (key := self._pop()) is not None:
                return key
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    # woken and cancelled at once: another worker must take the key
                    self._wake()
                elif waiter in self._waiters:
                    self._waiters.remove(waiter)
                raise

    def finish(
        self, key: K, *, failed: bool = False, requeue_after: float | None = None, min_backoff: float | None = None
    ) -> None:
        """Finish a pass over a key.

        If it `failed`, the key is retried after the backoff, at least `min_backoff` seconds. Otherwise it is requeued after
        `requeue_after` seconds, or, if that is None, when it is added. Raises ValueError if no pass over the key is running.
        """
        state = self._states[key]
        if not state.working:
            raise ValueError(f"no worker processes {key!r}")
        state.working = False
        self._working -= 1
        if failed:
            state.failures += 1
            self._schedule(key, state, Priority.RETRY, self._backoff.compute_seconds(state.failures, min_backoff))
        else:
            state.failures = 0
            if requeue_after is not None:
                self._schedule(key, state, Priority.CHECK, requeue_after)
        if state.priority is not None:
            priority, state.priority = state.priority, None
            self._make_ready(key, state, priority)
        self._discard_idle_state(key, state)
        if self._depth:
            self._wake()

    def close(self) -> None:
        """Hand out no more keys. Running passes continue."""
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
        rank = Priority.RETRY if priority is Priority.CHANGE and state.failures else priority
        heapq.heappush(self._ready, (rank, state.ticket, key))
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

    def _schedule(self, key: K, state: _State, priority: Priority, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if state.timer is not None and state.due <= due:
            return
        self._stop_timer(state)
        state.due = due
        state.timer = loop.call_at(due, self._add_scheduled_key, key, priority)

    def _add_scheduled_key(self, key: K, priority: Priority) -> None:
        state = self._states[key]
        state.timer = None
        self.add(key, priority)

    def _stop_timer(self, state: _State) -> None:
        if state.timer is not None:
            state.timer.cancel()
            state.timer = None

    def _discard_idle_state(self, key: K, state: _State) -> None:
        if state.priority is None and state.timer is None and not state.working and not state.failures:
            del self._states[key]

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
