"""How many keys are worked on at once, and what becomes of them when it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from tests.kube.virtual_time import run

from transom.controllers.runtime.controller import Leadership, Result, run_workers
from transom.kube.lease import LeaseLost
from transom.kube.queue import KeyQueue
from transom.kube.store import ObjectKey

_LEADERSHIP = cast(Leadership, None)


class _Played:
    def __init__(self, keys: int, one: Callable[["_Played", ObjectKey], Awaitable[None]]) -> None:
        self.queue: KeyQueue[ObjectKey] = KeyQueue()
        self._one, self._now = one, 0
        self.most = 0
        """How many were worked on at once that did not rest."""
        for number in range(keys):
            self.queue.add(ObjectKey(None, f"key-{number}"))

    def begin(self) -> None: ...

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(1)
        self._now -= 1
        await self._one(self, key)
        return Result()


async def _rest(played: _Played, _: ObjectKey) -> None:
    with played.queue.release_slot():
        await asyncio.sleep(5)


async def _stay(_: _Played, __: ObjectKey) -> None:
    await asyncio.sleep(5)


@pytest.mark.parametrize(("what", "seconds"), [(_rest, 9), (_stay, 54)])
def test_hosts_that_only_wait_hold_nobody_up(what: Any, seconds: int) -> None:
    async def main() -> None:
        played, loop = _Played(40, what), asyncio.get_running_loop()
        began = loop.time()
        working = asyncio.ensure_future(run_workers(played, _LEADERSHIP, 4))
        while not played.queue.working or len(played.queue):
            await asyncio.sleep(0.5)
        assert loop.time() - began == pytest.approx(seconds, abs=1), "the last has begun"
        assert played.most == 4
        played.queue.close()
        await working
        assert played.queue.working == 0, "what was begun is ended first"

    run(main())


def test_a_lost_lease_ends_the_work_and_leaves_each_key_to_the_next_term() -> None:
    async def lose(_: _Played, key: ObjectKey) -> None:
        if key.name == "key-5":
            raise LeaseLost
        await asyncio.sleep(5)

    async def main() -> None:
        played = _Played(20, lose)
        with pytest.raises(LeaseLost):
            await run_workers(played, _LEADERSHIP, 8)
        assert (played.queue.working, len(played.queue)) == (0, 20)

    run(main())


def test_who_is_told_to_stop_leaves_what_was_begun_in_the_queue() -> None:
    async def main() -> None:
        played = _Played(20, _rest)
        working = asyncio.ensure_future(run_workers(played, _LEADERSHIP, 8))
        await asyncio.sleep(1.5)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert (played.queue.working, len(played.queue)) == (0, 20)

    run(main())
