"""What a hostile host and its kubelet say is in conditions and events without control characters: on a real API server."""

import asyncio
import json
import re

import pytest
from tests.cli.hostile_texts import CONTROLS, HOSTILE, LETTERS
from tests.support.operator.clusters import PROXY, WHOLE_EVENTS, Cluster
from tests.support.waiting import PATIENCE

from transom.controllers.runtime.conditions import Condition
from transom.hosts.scripts.template import BASE
from transom.kube.events import EventRecorder, Regarding
from transom.kube.resources import NODES, WINDOWS_INSTANCES

pytestmark = pytest.mark.lab
WIDE = HOSTILE + "\x9b2J\x7f\u202e\u2028\ud800\nwin-2 Ready"


async def test_the_status_of_a_host(cluster: Cluster) -> None:
    """Its name, what its lock says of the holder, and the reason that its kubelet gives."""
    host = await cluster.simulator.add_host("win")
    host.name = HOSTILE
    for name, text in (("owner.txt", HOSTILE), ("generation.txt", "-"), (f"boot-{hex(host.boot_id)}", "1")):
        host.files.make_directories(rf"{BASE}\lock")
        host.files.write(rf"{BASE}\lock\{name}", text.encode())
    node = f"node-{cluster.namespace}"
    await cluster.put(NODES, node)
    said = {"type": "Ready", "status": "False", "reason": WIDE.replace("\ud800", "") * 9, "message": "x"}
    stamps = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), "2026-01-01T00:00:00Z")
    await cluster.merge(NODES, node, {"status": {"conditions": [said | stamps]}}, "status")
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host, nodeName=node)
    async with cluster.operator(controllers=("egress", "hosts")):
        await cluster.until("win-1", Configured="False/Held", NodeReady="False")
        async with asyncio.timeout(PATIENCE):
            while not any(LETTERS in message for _, _, message in await cluster.events("win-1")):
                await asyncio.sleep(0.1)
    held = (await cluster.client.get(WINDOWS_INSTANCES, "win-1", cluster.namespace)).value
    status = json.dumps(held["status"], ensure_ascii=False)
    assert LETTERS in {condition["type"]: condition["message"] for condition in held["status"]["conditions"]}["Configured"]
    reasons = {condition["type"]: condition["reason"] for condition in held["status"]["conditions"]}
    assert re.fullmatch("[A-Za-z]+", reasons["NodeReady"])
    assert CONTROLS.findall(status) == []
    events = [item.value["message"] for item in (await cluster.client.list_objects(WHOLE_EVENTS, cluster.namespace)).items]
    assert events
    assert CONTROLS.findall("".join(events)) == []
    described = await asyncio.to_thread(
        cluster.control_plane.run_kubectl, "describe", "windowsinstance", "win-1", "-n", cluster.namespace
    )
    assert CONTROLS.findall(described) == []
    await cluster.delete(NODES, node)


async def test_any_text_of_an_event(cluster: Cluster) -> None:
    """The server would refuse half a character, and keep the rest as it is."""
    recorder = EventRecorder(cluster.client)
    telling = asyncio.create_task(recorder.run())
    recorder.record_warning(Regarding("v1", "Namespace", "said", cluster.namespace), "Said", WIDE)
    await recorder.drain(PATIENCE)
    telling.cancel()
    (event,) = await cluster.events("said")
    assert event == ("Warning", "Said", LETTERS + r"\x9b2J\x7f\u202e\u2028\ud800\nwin-2 Ready")


def test_any_text_of_a_condition() -> None:
    assert Condition("False", "Said", WIDE).message == LETTERS + r"\x9b2J\x7f\u202e\u2028\ud800\nwin-2 Ready"
