"""Events: how often the server is told, on virtual time; and what `kubectl describe` makes of it, on a real one."""

import asyncio
import gc
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from lab.control_plane import ControlPlane
from tests.kube.virtual_time import run

from transom.kube.client import Client
from transom.kube.errors import ConnectionFailed, NotFound
from transom.kube.events import MAX_BYTES, EventRecorder, Regarding, _count_bytes, _RecordedEvent

NODE = Regarding("v1", "Node", "win-1", uid="win-1")
POD = Regarding("v1", "Pod", "a", "default")


class Told:
    """Stands for the server: what it was told and when."""

    def __init__(self) -> None:
        self.created: list[tuple[float, dict[str, Any]]] = []
        self.patched: list[tuple[float, str, int]] = []
        self.fault: Exception | None = None
        self.forgotten = False

    def recorder(self) -> EventRecorder:
        time = asyncio.get_running_loop().time
        return EventRecorder(cast("Client", self), now=lambda: datetime.fromtimestamp(1_700_000_000 + time(), UTC))

    async def create(self, resource: object, value: Mapping[str, Any], namespace: str) -> None:
        if self.fault:
            raise self.fault
        self.created.append((asyncio.get_running_loop().time(), dict(value)))

    async def patch(self, resource: object, value: Mapping[str, Any], name: str, namespace: str) -> None:
        if self.forgotten:
            self.forgotten = False
            raise NotFound(404, "NotFound", name)
        self.patched.append((asyncio.get_running_loop().time(), name, value["count"]))


def test_repetitions_are_counted_and_told_less_and_less_often() -> None:
    async def main() -> None:
        told = Told()
        recorder = told.recorder()
        task = asyncio.create_task(recorder.run())
        for _ in range(1000):
            recorder.record_warning(NODE, "Unreachable", "no route")
            await asyncio.sleep(1)
        await asyncio.sleep(700)
        assert len(told.created) == 1
        assert told.patched[-1][2] == 1000, "the last count is the whole"
        assert 5 <= len(told.patched) <= 10
        gaps = [later[0] - earlier[0] for earlier, later in zip(told.patched, told.patched[1:], strict=False)]
        assert gaps == sorted(gaps)
        task.cancel()

    run(main())


def test_after_the_window_it_is_a_new_event() -> None:
    async def main() -> None:
        told = Told()
        recorder = told.recorder()
        task = asyncio.create_task(recorder.run())
        recorder.record_normal(NODE, "Applied", "done")
        await asyncio.sleep(601)
        recorder.record_normal(NODE, "Applied", "done")
        await asyncio.sleep(1)
        assert len({event["metadata"]["name"] for _, event in told.created}) == 2
        assert told.patched == []
        task.cancel()

    run(main())


def test_many_messages_of_one_reason_become_one_event_and_other_objects_are_not_touched() -> None:
    async def main() -> None:
        told = Told()
        recorder = told.recorder()
        task = asyncio.create_task(recorder.run())
        for number in range(100):
            recorder.record_warning(NODE, "Failed", f"try {number}")
        recorder.record_warning(POD, "Failed", "try 0")
        recorder.record_warning(NODE, "Other", "another reason")
        await asyncio.sleep(1)
        messages = [(event["involvedObject"]["name"], event["message"]) for _, event in told.created]
        assert len(messages) == 5 + 1 + 2
        assert ("a", "try 0") in messages
        assert [message for name, message in messages if "many times" in message] != []
        task.cancel()

    run(main())


def test_what_cannot_be_sent_is_dropped_and_counted_and_holds_nobody_up() -> None:
    async def main() -> None:
        told = Told()
        told.fault = ConnectionFailed("refused")
        recorder = told.recorder()
        for number in range(1500):
            recorder.record_warning(Regarding("v1", "Node", f"n{number}"), "Failed", "x")
        assert recorder.dropped == 500
        task = asyncio.create_task(recorder.run())
        await recorder.drain()
        assert recorder.dropped == 1500
        told.fault = None
        recorder.record_normal(NODE, "Applied", "x" * 5000)
        await recorder.drain()
        assert len(told.created) == 1
        assert len(told.created[0][1]["message"]) == 1024
        task.cancel()

    run(main())


def test_an_event_that_the_server_has_forgotten_is_told_anew() -> None:
    async def main() -> None:
        told = Told()
        recorder = told.recorder()
        task = asyncio.create_task(recorder.run())
        recorder.record_normal(NODE, "Applied", "done")
        await asyncio.sleep(1)
        told.forgotten = True
        recorder.record_normal(NODE, "Applied", "done")
        await asyncio.sleep(20)
        assert [event["count"] for _, event in told.created] == [1, 2]
        task.cancel()

    run(main())


@pytest.mark.lab
async def test_describe_tells_the_story(control_plane: ControlPlane, direct: Client) -> None:
    await asyncio.to_thread(
        control_plane.apply, [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "story"}, "spec": {}}]
    )
    recorder = EventRecorder(direct, instance="transom-0")
    task = asyncio.create_task(recorder.run())
    regarding = Regarding("v1", "Node", "story", uid="story")
    recorder.record_warning(regarding, "Unreachable", "10.0.0.7:22 refuses connections")
    recorder.record_normal(regarding, "Applied", "proxy and 2 certificates")
    await recorder.drain()
    task.cancel()
    assert recorder.dropped == 0
    shown = (await asyncio.to_thread(control_plane.run_kubectl, "describe", "node", "story")).split("Events:")[1]
    assert "Unreachable" in shown
    assert "transom" in shown
    assert "proxy and 2 certificates" in shown
    await asyncio.to_thread(control_plane.run_kubectl, "delete", "node", "story")


def _count_memory(value: object, passed: set[int]) -> int:
    """Return the bytes of an object and of all that it refers to."""
    if id(value) in passed or isinstance(value, type | asyncio.AbstractEventLoop):
        return 0
    passed.add(id(value))
    return sys.getsizeof(value) + sum(
        _count_memory(other, passed)
        for other in gc.get_referents(value)
        if isinstance(other, str | int | float | dict | tuple | list | Regarding | _RecordedEvent | set)
    )


@pytest.mark.parametrize("vary", ["namespace", "name", "kind", "uid", "reason", "message"])
@pytest.mark.parametrize("length", [20, 253, 3_000_000])
def test_whatever_is_told_the_memory_is_bounded(vary: str, length: int) -> None:
    """Nothing is sent meanwhile: the server does not answer."""

    async def main() -> None:
        recorder = Told().recorder()
        for number in range(20_000 if length < 1_000 else 100):
            text = f"{number:05}".ljust(length, "ä")
            fields = {
                "api_version": "v1",
                "kind": "Secret",
                "name": "a",
                "namespace": "b",
                "reason": "R",
                "message": "ß" * 1_024,
            }
            fields[vary] = text
            reason, message = fields.pop("reason"), fields.pop("message")
            recorder.record_warning(Regarding(**fields), reason, message)
        held = _count_memory([recorder._known, recorder._messages, recorder._pending._queue], set())  # type: ignore[attr-defined]
        assert held < 2 * MAX_BYTES
        assert recorder._pending_bytes <= MAX_BYTES
        if length < 1_000 and vary != "message":
            assert recorder.dropped > 0

    run(main())


@pytest.mark.parametrize("length", [254, 3_000_000])
def test_of_a_name_that_no_object_has_nothing_is_sent(length: int) -> None:
    async def main() -> None:
        told = Told()
        recorder = told.recorder()
        task = asyncio.create_task(recorder.run())
        for regarding in (Regarding("v1", "Pod", "a" * length), Regarding("v1", "Pod", "a", "b" * length)):
            recorder.record_warning(regarding, "Failed", "x")
        recorder.record_warning(Regarding("v1", "Pod", "a" * 253, "b" * 63), "Failed", "x")
        await asyncio.sleep(1)
        assert len(told.created) == 1
        assert recorder.dropped == 2
        task.cancel()

    run(main())


def test_what_is_forgotten_and_sent_makes_room() -> None:
    async def main() -> None:
        told = Told()
        recorder = told.recorder()
        task = asyncio.create_task(recorder.run())
        for number in range(10_000):
            recorder.record_warning(Regarding("v1", "Pod", f"p{number}", "default"), "Failed", "x" * 500)
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        assert len(told.created) == 10_000
        assert recorder.dropped == recorder._pending_bytes == 0
        assert 0 < recorder._known_bytes <= MAX_BYTES // 2
        assert recorder._known_bytes == sum(map(_count_bytes, recorder._known))
        assert recorder._messages_bytes == sum(map(_count_bytes, recorder._messages))
        task.cancel()

    run(main())
