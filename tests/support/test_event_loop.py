"""What the measure of a cost sees."""

import asyncio
import time

from tests.support.event_loop import measure_cost


async def test_the_longest_callback_and_the_peak_of_the_memory_are_seen() -> None:
    async def work() -> None:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass

    with measure_cost() as cost:
        await asyncio.create_task(work())
        held = bytearray(b"x" * 64 * 2**20)
        del held
    assert cost.longest >= 0.2
    assert "work" in cost.callback
    assert cost.total >= cost.longest
    assert cost.growth > 60 * 2**20


async def test_waiting_costs_nothing() -> None:
    with measure_cost() as cost:
        await asyncio.sleep(0.3)
    assert cost.longest < 0.2
    assert cost.growth < 8 * 2**20
