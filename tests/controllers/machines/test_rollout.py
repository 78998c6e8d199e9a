"""Whose turn it is: the decisions of a rollout, from what is there."""

import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.common.timestamps import format_timestamp
from transom.controllers.machines.machine_objects import CachedControlPlane, CachedDeployment
from transom.controllers.machines.rollout import (
    PATIENCE,
    MachineGroup,
    MachinesDecision,
    MachinesRolloutState,
    compute_next_check,
    decide_next_steps,
    format_counts,
)

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
CHANGED = format_timestamp(START - timedelta(minutes=5))
BEFORE = format_timestamp(START - timedelta(days=1))
NOW = format_timestamp(START)


def deployment(name: str = "workers", **fields: object) -> MachineGroup:
    given = {"machines": 2, "outdated": 2, "replicas": 2, "ready": 2, "changed": CHANGED, "newest": BEFORE} | fields
    return msgspec.structs.replace(MachineGroup("MachineDeployment", name), **given)


def control_plane(**fields: object) -> MachineGroup:
    given = {"machines": 1, "outdated": 1, "replicas": 1, "ready": 1, "changed": CHANGED, "newest": BEFORE} | fields
    return msgspec.structs.replace(MachineGroup("KubeadmControlPlane", "prod"), **given)


def standing(name: str, *groups: MachineGroup, automatic: bool = True, paused: bool = False) -> MachinesRolloutState:
    return MachinesRolloutState(("org", name), groups, automatic, paused)


def begun(*standings: MachinesRolloutState, now: datetime = START) -> list[tuple[str, str]]:
    return [(step.cluster[1], step.group.name) for step in decide_next_steps(standings, now).steps]


NEW = {"outdated": 0, "requested": NOW, "newest": NOW}


@pytest.mark.parametrize(
    ("standings", "expected"),
    [
        ([standing("b", deployment()), standing("a", deployment())], [("a", "workers")]),
        ([standing("a", deployment(outdated=0))], []),
        ([standing("a", deployment(), automatic=False)], []),
        ([standing("a", deployment(), paused=True), standing("b", deployment())], [("b", "workers")]),
        ([standing("a", deployment(kept="Flux")), standing("b", deployment())], [("b", "workers")]),
        # machines that are not ready already are no start
        ([standing("a", deployment(ready=1)), standing("b", deployment())], [("b", "workers")]),
        # one that was begun is brought to its end first
        ([standing("a", deployment()), standing("b", deployment(requested=NOW))], []),
        ([standing("a", deployment()), standing("b", deployment(**NEW, ready=1))], []),
        ([standing("a", deployment()), standing("b", deployment(**NEW))], [("a", "workers")]),
        # asked for before the newest change: asked for again
        ([standing("a", deployment(requested=BEFORE))], [("a", "workers")]),
        # the control plane first, then all MachineDeployments
        ([standing("a", deployment(), control_plane())], [("a", "prod")]),
        ([standing("a", deployment(), control_plane(outdated=0, to_edit=True))], [("a", "prod")]),
        ([standing("a", deployment(), control_plane(requested=NOW))], []),
        ([standing("a", deployment(), control_plane(**NEW, ready=0))], []),
        ([standing("a", deployment("x"), deployment("y"), control_plane(**NEW))], [("a", "x"), ("a", "y")]),
    ],
)
def test_whose_turn_it_is(standings: list[MachinesRolloutState], expected: list[tuple[str, str]]) -> None:
    assert begun(*standings) == expected


def test_stuck_cluster_stops_all_others_and_says_why() -> None:
    late = START + timedelta(seconds=PATIENCE + 1)
    stuck = standing("a", deployment(**NEW, ready=1))
    assert compute_next_check([stuck, standing("b", deployment())], START) == PATIENCE
    decision = decide_next_steps([stuck, standing("b", deployment())], late)
    assert decision == MachinesDecision(
        current=("org", "a"), halted="org/a: MachineDeployment workers has 1 of 2 machines ready, 0 still old"
    )
    # with nothing left to roll, a cluster that is not well is nobody's halt
    assert decide_next_steps([stuck], late).halted == ""
    assert begun(standing("a", deployment(**NEW)), standing("b", deployment()), now=late) == [("b", "workers")]


def test_patience_begins_when_it_was_asked_for() -> None:
    late = START + timedelta(seconds=PATIENCE + 1)
    asked = standing("a", deployment(requested=CHANGED, asked=format_timestamp(late)), standing("b", deployment()).groups[0])
    assert asked.in_progress
    assert decide_next_steps([asked], late).halted == ""


def test_new_machine_is_progress() -> None:
    late = START + timedelta(seconds=PATIENCE + 1)
    slow = standing("a", deployment(requested=NOW, outdated=1, newest=format_timestamp(late)), deployment("y", outdated=0))
    assert decide_next_steps([slow], late).halted == ""


GROUPS = st.builds(
    lambda kind, replicas, old: (control_plane if kind else deployment)(
        replicas=replicas, ready=replicas, machines=replicas, outdated=min(old, replicas)
    ),
    st.booleans(),
    st.integers(0, 3),
    st.integers(0, 3),
)
CLUSTERS = st.lists(st.tuples(GROUPS, GROUPS, st.booleans(), st.booleans()), max_size=5)


@given(CLUSTERS, st.randoms(use_true_random=False))
def test_every_cluster_is_rolled_once_and_never_two_at_a_time(
    clusters: list[tuple[MachineGroup, MachineGroup, bool, bool]], draw: object
) -> None:
    """What Cluster API would do is drawn: replace a machine, make it ready, or take its time."""
    standings = [
        standing(
            str(number), msgspec.structs.replace(item, name="x"), msgspec.structs.replace(two, name="y"), automatic=a, paused=p
        )
        for number, (item, two, a, p) in enumerate(clusters)
    ]
    asked: list[tuple[str, str]] = []
    now = START
    for _ in range(300):
        now += timedelta(seconds=10)
        running = [item for item in standings if item.in_progress]
        assert len(running) <= 1
        for step in decide_next_steps(standings, now).steps:
            asked.append((step.cluster[1], step.group.name))
            assert not running or running[0].cluster == step.cluster
            standings = [
                _changed(item, step.group, requested=format_timestamp(now)) if item.cluster == step.cluster else item
                for item in standings
            ]
        standings = [_moved(item, now, draw) for item in standings]
        if not any(item.waiting or item.in_progress for item in standings):
            break
    assert len(asked) == len(set(asked))
    left = [item for item in standings if item.automatic and not item.paused and item.outdated]
    assert left == []


def _named(group: MachineGroup, name: str) -> MachineGroup:
    return msgspec.structs.replace(group, name=name)


def _changed(one: MachinesRolloutState, group: MachineGroup, **fields: object) -> MachinesRolloutState:
    groups = tuple(msgspec.structs.replace(each, **fields) if each == group else each for each in one.groups)
    return msgspec.structs.replace(one, groups=groups)


def _moved(one: MachinesRolloutState, now: datetime, draw: random.Random) -> MachinesRolloutState:
    for group in one.groups:
        if not group.is_rollout_requested or draw.random() < 0.3:
            continue
        if group.ready < group.replicas:
            return _changed(one, group, ready=group.ready + 1)
        if group.outdated:
            return _changed(
                one, group, outdated=group.outdated - 1, ready=max(group.ready - 1, 0), newest=format_timestamp(now)
            )
    return one


def test_counts_are_said_in_words() -> None:
    assert format_counts([standing("a", deployment(), control_plane())]) == "3 machines of 1 cluster"
    assert (
        format_counts([standing("a", deployment(outdated=1)), standing("b", deployment(outdated=0))])
        == "1 machine of 1 cluster"
    )


AFTER = "2026-11-21T13:00:00+02:00"


@pytest.mark.parametrize(
    ("spec", "status", "initialized"),
    [
        ({"rolloutAfter": AFTER, "kubeadmConfigSpec": {"files": []}}, {"initialized": True, "readyReplicas": 3}, True),
        (
            {"rollout": {"after": AFTER}, "kubeadmConfigSpec": {"files": []}},
            {"initialization": {"controlPlaneInitialized": True}, "readyReplicas": 3},
            True,
        ),
        ({"rollout": {"after": AFTER}, "kubeadmConfigSpec": {"files": []}}, {"readyReplicas": 3}, False),
    ],
)
def test_both_versions_of_cluster_api_say_the_same(
    spec: dict[str, object], status: dict[str, object], initialized: bool
) -> None:
    held = msgspec.json.decode(msgspec.json.encode({"spec": spec, "status": status}), type=CachedControlPlane)
    assert (held.rollout_after, held.initialized, held.configuration) == ("2026-11-21T11:00:00Z", initialized, {"files": []})
    given = {"clusterName": "prod", **{key: value for key, value in spec.items() if key.startswith("rollout")}}
    assert (
        msgspec.json.decode(msgspec.json.encode({"spec": given}), type=CachedDeployment).rollout_after == "2026-11-21T11:00:00Z"
    )


@pytest.mark.parametrize("spec", [{"strategy": {"type": "OnDelete"}}, {"rollout": {"strategy": {"type": "OnDelete"}}}])
def test_machines_that_a_person_replaces(spec: dict[str, object]) -> None:
    assert msgspec.json.decode(msgspec.json.encode({"spec": spec}), type=CachedDeployment).uses_on_delete_strategy
