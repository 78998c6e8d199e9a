"""Which pods a drain evicts, and how many nodes may be away: without an API server."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from transom.controllers.rollout.drain import DrainProgress, Fate, NodePod, RemainingPod, get_drain_action
from transom.controllers.rollout.slots import MAX_UNAVAILABLE, UnavailabilitySlots
from transom.controllers.runtime.cached_objects import CachedInstance, HostNode
from transom.controllers.runtime.informers import INSTANCE_INDEXES, MACHINE_SETS, CachedApiMachine, Informers
from transom.kube.objects import Metadata
from transom.kube.store import ObjectKey, Store

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LONG_AGO = "2026-11-21T10:00:00Z"
JUST_NOW = "2026-11-21T11:59:00Z"


def owned(kind: str) -> dict[str, Any]:
    return {"ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u", "controller": True}]}


@pytest.mark.parametrize(
    ("metadata", "phase", "expected"),
    [
        ({}, "Running", "evict"),
        ({}, "Pending", "evict"),
        ({}, None, "evict"),
        (owned("ReplicaSet"), "Running", "evict"),
        (owned("StatefulSet"), "Running", "evict"),
        (owned("Node"), "Running", "evict"),
        ({"annotations": {"other": "x"}}, "Running", "evict"),
        (owned("DaemonSet"), "Running", "stay"),
        (owned("DaemonSet") | {"deletionTimestamp": LONG_AGO}, "Running", "stay"),
        ({"annotations": {"kubernetes.io/config.mirror": "hash"}}, "Running", "stay"),
        ({}, "Succeeded", "stay"),
        (owned("Job"), "Failed", "stay"),
        ({"deletionTimestamp": LONG_AGO}, "Running", "wait"),
        (owned("ReplicaSet") | {"deletionTimestamp": LONG_AGO}, "Pending", "wait"),
    ],
)
def test_what_a_drain_does_with_a_pod(metadata: dict[str, Any], phase: str | None, expected: Fate) -> None:
    pod = {"metadata": {"name": "p", "namespace": "n", **metadata}, "status": {"phase": phase}}
    assert get_drain_action(msgspec.convert(pod, NodePod)) == expected


def test_who_remains_is_named_and_not_too_many() -> None:
    remaining = tuple(RemainingPod(f"n/p{number}", "is ending") for number in range(5))
    assert str(DrainProgress(remaining)) == "n/p0: is ending; n/p1: is ending; n/p2: is ending; and 2 more"
    assert not DrainProgress(remaining).done
    assert DrainProgress().done


class Fleet:
    """Nodes 0 to n of a MachineSet each, one node after the other in the sets that are named."""

    def __init__(self, sets: str, most: int, limits: dict[str, str] | None = None) -> None:
        self.instances: Store[CachedInstance] = Store(INSTANCE_INDEXES)
        machines: Store[CachedApiMachine] = Store({"origin": lambda machine: [machine.origin]})
        machine_sets: Store[Metadata] = Store()
        for number, owner in enumerate(sets):
            labels, annotations = {"transom.dev/source": "Machine"}, {"transom.dev/origin": f"api/m-{number}"}
            metadata = {"name": f"win-{number}", "namespace": "transom", "labels": labels, "annotations": annotations}
            instance = {"metadata": metadata, "spec": {"lifecycle": "Node"}, "status": {"nodeName": f"node-{number}"}}
            self.instances.put(msgspec.convert(instance, CachedInstance))
            owners = [{"kind": "MachineSet", "name": owner, "controller": True}]
            machine = {"metadata": {"name": f"m-{number}", "namespace": "api", "ownerReferences": owners}}
            machines.put(msgspec.convert(machine, CachedApiMachine))
        for owner in set(sets):
            limit = (limits or {}).get(owner)
            annotations = {MAX_UNAVAILABLE: limit} if limit is not None else {}
            found = {"metadata": {"name": owner, "namespace": "api", "annotations": annotations}}
            machine_sets.put(msgspec.convert(found, Metadata))
        self.asked: list[ObjectKey] = []
        self.now = NOW

        def watch(resource: object, **_: object) -> object:
            return machine_sets if resource is MACHINE_SETS else machines

        informers = cast("Informers", SimpleNamespace(windows_instances=self.instances, watch=watch))
        self.slots = UnavailabilitySlots(informers, most, 1200.0, lambda: self.now, self.asked.append)

    def held(self, number: int) -> CachedInstance:
        found = self.instances.take_snapshot().find_named(f"win-{number}", "transom")
        assert found is not None
        return found

    def take(self, number: int) -> bool:
        if self.slots.find_wait_reason(self.held(number)) is not None:
            return False
        self.slots.take(self.held(number))
        return True

    def give_back(self, number: int) -> None:
        self.slots.release(ObjectKey("transom", f"win-{number}"))

    def node(self, number: int, ready: str = "True", since: str = JUST_NOW, **annotations: str) -> None:
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": since}
        metadata = {"name": f"node-{number}", "annotations": annotations}
        node = {"metadata": metadata, "spec": {"unschedulable": bool(annotations)}, "status": {"conditions": [condition]}}
        self.slots.update_node(f"node-{number}", msgspec.convert(node, HostNode))


def test_one_after_the_other_and_who_waits_is_asked() -> None:
    fleet = Fleet("aaa", 1)
    assert fleet.take(0)
    assert fleet.take(0)
    assert not fleet.take(1)
    assert not fleet.take(2)
    assert fleet.slots.find_wait_reason(fleet.held(1)) == "waits for win-0: 1 may be away at once (--max-unavailable)"
    assert fleet.asked == []
    fleet.give_back(0)
    assert fleet.asked == [("transom", "win-1")]
    assert fleet.take(1)


def test_a_node_that_is_not_ready_is_away_and_one_that_a_person_cordoned_is_not() -> None:
    fleet = Fleet("aaaa", 1)
    fleet.node(0, "False")
    assert not fleet.take(1)
    assert fleet.take(0)
    fleet.give_back(0)
    fleet.node(0)
    assert fleet.asked == [("transom", "win-1")]
    fleet.node(2, other="x")
    assert fleet.take(1)


@pytest.mark.parametrize("node", [{"ready": "Unknown"}, {"transom.dev/cordoned": "upgrade", "transom.dev/drain": JUST_NOW}])
def test_nobody_is_waited_for_for_ever(node: dict[str, str]) -> None:
    fleet = Fleet("aa", 1)
    fleet.node(0, **node)
    assert not fleet.take(1)
    fleet.now += timedelta(hours=1)
    assert fleet.take(1)


def test_a_node_that_was_cordoned_before_this_process_holds_a_slot() -> None:
    fleet = Fleet("aaa", 2)
    fleet.node(0, **{"transom.dev/cordoned": "upgrade", "transom.dev/drain": JUST_NOW, "transom.dev/drained": JUST_NOW})
    assert fleet.take(1)
    assert not fleet.take(2)
    assert fleet.take(0)


@pytest.mark.parametrize(
    ("limits", "taken"),
    [
        ({}, [0, 1, 2, 3]),
        ({"a": "1"}, [0, 3, 4, 5]),
        ({"a": "2", "b": "1"}, [0, 1, 3]),
        ({"a": "9"}, [0, 1, 2, 3]),
        ({"a": "many", "b": "0"}, [0, 3]),
    ],
)
def test_a_machine_set_may_say_less(limits: dict[str, str], taken: list[int]) -> None:
    fleet = Fleet("aaabbb", 4, limits)
    assert [number for number in range(6) if fleet.take(number)] == taken


def test_a_machine_set_that_is_full_is_named() -> None:
    fleet = Fleet("aab", 3, {"a": "1"})
    assert fleet.take(0)
    why = fleet.slots.find_wait_reason(fleet.held(1))
    assert why == "waits for win-0: 1 may be away at once (transom.dev/max-unavailable of MachineSet a)"
