"""Clean-up that goes on when whoever waits for it is cancelled."""

import asyncio

import pytest

from transom.common.clean_up import run_to_end


class Work:
    """Something that has three steps; `begun` and `ended` say how far it came."""

    def __init__(self, gate: asyncio.Event) -> None:
        self.gate, self.begun, self.ended = gate, asyncio.Event(), False

    async def run(self) -> str:
        self.begun.set()
        await self.gate.wait()
        self.ended = True
        return "done"


async def test_it_gives_what_the_work_gives() -> None:
    gate = asyncio.Event()
    gate.set()
    assert await run_to_end(Work(gate).run(), 60) == "done"


async def test_what_is_cancelled_goes_on_to_its_end() -> None:
    work = Work(asyncio.Event())
    waiting = asyncio.ensure_future(run_to_end(work.run(), 60))
    await work.begun.wait()
    waiting.cancel()
    await asyncio.sleep(0)
    work.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.ended


@pytest.mark.parametrize(("seconds", "cancelled_seconds"), [(0.05, None), (None, 0.05), (3600, 0.05)])
async def test_it_has_a_limit(seconds: float | None, cancelled_seconds: float | None) -> None:
    work = Work(asyncio.Event())
    waiting = asyncio.ensure_future(run_to_end(work.run(), seconds, cancelled_seconds))
    await work.begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not work.ended


async def test_without_a_cancellation_the_limit_is_an_error() -> None:
    work = Work(asyncio.Event())
    with pytest.raises(TimeoutError):
        await run_to_end(work.run(), 0.01)
    assert not work.ended


async def test_what_the_work_raises_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run_to_end(fail(), 60)
