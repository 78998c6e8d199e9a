import asyncio
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kube.virtual_time import run

from transom.kube.backoff import Backoff
from transom.kube.queue import KeyQueue, Priority, QueueClosed

STEADY = Backoff(1.0, 300.0, draw=lambda: 1.0)


def test_a_key_is_handed_out_once_however_often_it_was_added() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue()
        for _ in range(1000):
            queue.add("a")
        assert len(queue) == 1
        assert await queue.take() == "a"
        queue.finish("a")
        assert len(queue) == 0
        assert queue._states == {}

    run(main())


def test_a_key_added_during_its_pass_waits_for_the_end_of_it() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue()
        queue.add("a")
        await queue.take()
        queue.add("a")
        other = asyncio.ensure_future(queue.take())
        await asyncio.sleep(100)
        assert not other.done()
        assert (len(queue), queue.working) == (0, 1)
        queue.finish("a")
        assert await other == "a"
        queue.finish("a")
        assert (len(queue), queue.working) == (0, 0)

    run(main())


def test_who_is_waited_for_goes_before_who_waits() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue()
        for key in ("first", "waits 1", "waits 2", "second"):
            queue.add(key)
        assert await queue.take() == "first"
        # one that was told to wait, one that was not yet, and one that is worked on
        queue.add("third", Priority.TURN)
        queue.add("second", Priority.TURN)
        queue.add("first", Priority.TURN)
        queue.finish("first")
        assert [await queue.take() for _ in range(5)] == ["third", "second", "first", "waits 1", "waits 2"]

    run(main())


def test_changes_go_before_retries_and_checks_and_each_in_its_order() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue()
        queue.add("check 1", Priority.CHECK)
        queue.add("check 2", Priority.CHECK)
        queue.add("retry", Priority.RETRY)
        queue.add("change 1")
        queue.add("change 2")
        queue.add("check 2", Priority.CHANGE)
        queue.add("change 1", Priority.CHECK)
        taken = [await queue.take() for _ in range(5)]
        assert taken == ["change 1", "change 2", "check 2", "retry", "check 1"]

    run(main())


def test_changes_of_keys_that_failed_go_behind_those_of_others() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue(STEADY)
        for key in ("failed", "mended", "blocks"):
            queue.add(key)
            await queue.take()
            queue.finish(key, failed=True)
        queue.add("failed")
        queue.add("check", Priority.CHECK)
        queue.add("mended")
        queue.add("good")
        assert await queue.take() == "good"
        # what is urgent stays so
        queue.add("blocks", Priority.TURN)
        assert await queue.take() == "blocks"
        assert await queue.take() == "failed"
        assert await queue.take() == "mended"
        # a change during a pass that succeeds is one of a key that did not fail
        queue.add("mended")
        queue.add("failed")
        queue.finish("failed", failed=True)
        queue.finish("mended")
        assert [await queue.take() for _ in range(3)] == ["mended", "failed", "check"]

    run(main())


def test_failures_back_off_for_each_key_until_it_succeeds() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue(STEADY)
        loop = asyncio.get_running_loop()
        queue.add("a")
        waits = []
        for _ in range(11):
            await queue.take()
            ended = loop.time()
            queue.finish("a", failed=True)
            queue.add("b")
            assert await queue.take() == "b"
            assert loop.time() == ended
            queue.finish("b")
            while not len(queue):
                await asyncio.sleep(0.5)
            waits.append(round(loop.time() - ended))
        assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
        await queue.take()
        queue.finish("a")
        assert queue.count_failures("a") == 0
        assert queue._states == {}

    run(main())


def test_a_change_does_not_wait_for_the_backoff() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue(STEADY)
        queue.add("a")
        await queue.take()
        began = asyncio.get_running_loop().time()
        queue.finish("a", failed=True, min_backoff=600)
        queue.add("a")
        assert await queue.take() == "a"
        assert asyncio.get_running_loop().time() == began
        assert queue.count_failures("a") == 1
        queue.finish("a")
        await asyncio.sleep(1000)
        assert len(queue) == 0, "the pass stood for the retry"

    run(main())


def test_the_shortest_delay_holds_and_a_pass_stands_for_it() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue()
        loop = asyncio.get_running_loop()
        began = loop.time()
        queue.add("a", Priority.CHECK, after=1800)
        queue.add("a", Priority.CHANGE, after=5)
        queue.add("a", Priority.CHECK, after=60)
        assert await queue.take() == "a"
        assert loop.time() - began == pytest.approx(5)
        queue.finish("a", requeue_after=1800)
        assert await queue.take() == "a"
        assert loop.time() - began == pytest.approx(1805)
        queue.finish("a")
        await asyncio.sleep(5000)
        assert len(queue) == 0

    run(main())


def test_forget_drops_what_waits_and_lets_a_pass_end() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue()
        queue.add("a")
        queue.add("b", after=10)
        queue.forget("a")
        queue.forget("b")
        queue.forget("never seen")
        await asyncio.sleep(20)
        assert len(queue) == 0
        queue.add("c")
        await queue.take()
        queue.add("c")
        queue.forget("c")
        queue.finish("c")
        assert len(queue) == 0
        assert queue._states == {}

    run(main())


def test_done_without_take_is_an_error() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue()
        queue.add("a")
        with pytest.raises(ValueError, match="no worker processes 'a'"):
            queue.finish("a")

    run(main())


def test_close_ends_waiting_workers_and_hands_out_nothing() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue()
        workers = [asyncio.ensure_future(queue.take()) for _ in range(3)]
        await asyncio.sleep(0)
        queue.close()
        results = await asyncio.gather(*workers, return_exceptions=True)
        assert [type(result) for result in results] == [QueueClosed] * 3
        queue.add("a")
        with pytest.raises(QueueClosed):
            await queue.take()

    run(main())


def test_a_worker_cancelled_while_it_is_woken_leaves_the_key_to_another() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue()
        first = asyncio.ensure_future(queue.take())
        second = asyncio.ensure_future(queue.take())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        assert await second == "a"

    run(main())


def test_who_rests_leaves_its_place_to_another_key() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue()
        for key in "abcd":
            queue.add(key)
        assert [await queue.take(2), await queue.take(2)] == ["a", "b"]
        third = asyncio.ensure_future(queue.take(2))
        await asyncio.sleep(100)
        assert not third.done(), "both places are taken"
        with queue.release_slot():
            assert await third == "c"
        fourth = asyncio.ensure_future(queue.take(2))
        queue.finish("b")
        await asyncio.sleep(100)
        assert not fourth.done(), "who rested works again, beside the third"
        queue.finish("a")
        assert await fourth == "d"
        for key in "cd":
            queue.finish(key)
        assert (len(queue), queue.working, queue._states) == (0, 0, {})

    run(main())


@given(
    adds=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(Priority), st.sampled_from([0, 0, 0, 1, 7])), max_size=60),
    pauses=st.lists(st.sampled_from([0, 0, 1, 3]), max_size=60),
    outcomes=st.lists(st.booleans(), max_size=100),
    rests=st.lists(st.booleans(), max_size=100),
)
def test_every_add_is_followed_by_a_pass_and_no_two_passes_of_a_key_overlap(
    adds: list[tuple[int, Priority, int]], pauses: list[int], outcomes: list[bool], rests: list[bool]
) -> None:
    async def main() -> None:
        queue: KeyQueue[int] = KeyQueue(STEADY)
        loop = asyncio.get_running_loop()
        working: set[int] = set()
        last_begin: dict[int, float] = {}
        asked: dict[int, float] = {}
        order = 0

        async def worker() -> None:
            nonlocal order
            while True:
                key = await queue.take(2)
                assert key not in working, "two passes over one key"
                working.add(key)
                order += 1
                last_begin[key] = order
                await asyncio.sleep(1)
                with queue.release_slot() if rests and rests.pop() else nullcontext():
                    await asyncio.sleep(1)
                working.discard(key)
                queue.finish(key, failed=outcomes.pop() if outcomes else False)

        workers = [asyncio.ensure_future(worker()) for _ in range(3)]
        for index, (key, priority, after) in enumerate(adds):
            order += 1
            asked[key] = order
            queue.add(key, priority, after)
            if index < len(pauses):
                await asyncio.sleep(pauses[index])
        end = loop.time() + 2000
        while loop.time() < end:
            await asyncio.sleep(50)
        assert all(last_begin.get(key, 0) > when for key, when in asked.items()), "an add that no pass followed"
        assert (len(queue), queue.working, queue._states) == (0, 0, {})
        for item in workers:
            assert not item.done()
            item.cancel()

    run(main())


def test_what_failed_is_handed_out_at_once_when_the_cause_is_gone() -> None:
    async def main() -> None:
        queue: KeyQueue[str] = KeyQueue(STEADY)
        for key in ("failed", "checked"):
            queue.add(key)
        for _ in range(9):
            while (key := await queue.take()) != "failed":
                queue.finish(key, requeue_after=1800.0)
            queue.finish("failed", failed=True)
        assert len(queue) == 0
        queue.retry_failed()
        # what did not fail waits for its time
        assert (await queue.take(), len(queue)) == ("failed", 0)
        assert queue.count_failures("failed") == 9
        queue.retry_failed()
        queue.finish("failed")
        assert (len(queue), queue.failing) == (0, 0)

    run(main())
