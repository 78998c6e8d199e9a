"""Waiting for the kubelet of a Node: by what the watch brings, and by a look at the API server before it is given up."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest
from tests.support.operator.clusters import Cluster

from transom.controllers.hosts.triggers import get_relevant_fields
from transom.controllers.rollout import heartbeats
from transom.controllers.rollout.heartbeats import Heartbeats
from transom.controllers.runtime.cached_objects import HostNode
from transom.kube.resources import NODES
from transom.kube.store import Store

BEFORE = datetime(2026, 11, 21, 10, 0, 5, tzinfo=UTC)
"""What the kubelet had said before it was restarted, by the clock of its host."""


def node(beat: str | None, status: str = "True", name: str = "win-1") -> HostNode:
    ready = {"type": "Ready", "status": status, "reason": "KubeletReady", "lastHeartbeatTime": beat}
    pressure = {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": "2026-11-21T11:00:00Z"}
    return msgspec.convert({"metadata": {"name": name}, "status": {"conditions": [pressure, ready]}}, HostNode)


@pytest.mark.parametrize(
    ("after", "heard"),
    [
        (node("2026-11-21T10:00:06Z"), True),
        (node("2026-11-21T11:00:06+01:00"), True),
        (node("2026-11-21T10:00:05Z"), False),
        (node("2026-11-21T10:00:04Z"), False),
        (node("2026-11-21T10:00:09Z", "False"), False),
        (node(None), False),
        (node("2026-11-21T10:00:09Z", name="win-2"), False),
    ],
)
async def test_what_the_watch_brings_ends_the_wait(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, after: HostNode, heard: bool
) -> None:
    monkeypatch.setattr(heartbeats, "HEARTBEAT_SECONDS", 1.0)
    store: Store[HostNode] = Store()
    waiting = Heartbeats(store)
    store.put(node("2026-11-21T10:00:00Z"))
    store.subscribe(lambda name, _, changed: waiting.update(name.name, changed))
    # the server has no such Node: what is not brought is not found there either
    asked = asyncio.create_task(waiting.wait_for_newer("win-1", BEFORE, cluster.client))
    await asyncio.sleep(0)
    store.put(after)
    assert await asked is heard


async def test_a_watch_that_is_behind_costs_no_kubelet_its_verdict(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "HEARTBEAT_SECONDS", 0.01)
    name = f"{cluster.namespace}-behind"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-11-21T10:00:09Z"}
    await cluster.put(NODES, name)
    await cluster.merge(NODES, name, {"status": {"conditions": [ready]}}, "status")
    assert await Heartbeats(Store()).wait_for_newer(name, BEFORE, cluster.client)


def test_a_heartbeat_concerns_no_instance_and_readiness_does() -> None:
    first = node("2026-11-21T10:00:05Z")
    assert get_relevant_fields(first) == get_relevant_fields(node("2026-11-21T10:00:15Z"))
    assert get_relevant_fields(first) != get_relevant_fields(node("2026-11-21T10:00:05Z", "False"))
    assert [condition.type for condition in (first.status.conditions if first.status else None) or ()] == ["Ready"]
