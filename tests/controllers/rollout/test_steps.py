"""Every step of a version's way to 40 nodes is the moment of an edit, or the end of a process.

`TRANSOM_STRIDE=1` takes every one, in minutes; without it it is every 43rd. What one change alone does is in `test_histories`.
"""

import os
from collections import Counter

import pytest
from tests.support.changes_world import ChangesWorld, Kind
from tests.support.hosts_world import BAD, BREAKS, NAMESPACE

from transom.controllers.rollout import heartbeats
from transom.kube.store import ObjectKey
from transom.rollout.state import MAX_FAILURES

STRIDE = int(os.environ.get("TRANSOM_STRIDE", "43"))
MOST = 4


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubelet that was not heard of by now is dead."""
    monkeypatch.setattr(heartbeats, "HEARTBEAT_SECONDS", 0.0)


async def forth(world: ChangesWorld, steps: int) -> bool:
    """So many steps, workers first, each pass in its turn; whether there were so many."""
    for number in range(steps):
        if world.startable:
            await world.begin()
        elif world.passes:
            await world.step(list(world.passes)[number % len(world.passes)])
        else:
            return False
    return True


def reached(world: ChangesWorld, kind: Kind, what: str) -> set[str]:
    (change,) = [change for change in world.changes if change.kind == kind]
    return {name for text, names in change.reached.items() if text.startswith(what) for name in names}


async def settled(world: ChangesWorld, ticks: int = 3) -> None:
    await world.quiet()
    for _ in range(ticks):
        world.tick(world.hold + 1)
        await world.quiet()


@pytest.mark.parametrize(
    ("kind", "what", "most"),
    [
        ("settings", BAD, 1),
        ("settings", BREAKS, MAX_FAILURES),
        ("upgrade", BREAKS, MAX_FAILURES),
        ("keys", BREAKS, MAX_FAILURES),
    ],
)
async def test_a_wrong_change_at_any_step_of_a_good_version(kind: Kind, what: str, most: int) -> None:
    steps, more = 0, True
    while more:
        world = ChangesWorld(40, workers=32, most=MOST)
        await world.quiet()
        await world.edit("upgrade", "good-1")
        more = await forth(world, steps)
        await world.edit(kind, f"{what}-2")
        await settled(world)
        assert len(reached(world, kind, what)) == most, steps
        assert kind in world.halted, steps
        await world.edit(kind, "good-3")
        await settled(world, 12)
        for change in world.changes:
            assert set(change.has.values()) == {change.want}, (steps, change.kind)
        assert not world.halted
        assert world.most_away <= MOST, steps
        assert not any(value for annotations in world.annotations.values() for value in annotations.values())
        steps += STRIDE


@pytest.mark.parametrize("after_the_change", [False, True])
async def test_a_process_that_ends_at_any_step_of_all_three(after_the_change: bool) -> None:
    """The next one goes on: nothing is done twice to any node, and no more are away than may."""
    steps, more = 0, True
    while more:
        world = ChangesWorld(40, workers=32, most=MOST)
        await world.quiet()
        await world.edit("upgrade", "good-1")
        await world.edit("keys", "good-1")
        await world.edit("settings", "good-1")
        more = await forth(world, steps)
        await world.crash(after_the_change=after_the_change)
        await settled(world)
        for change in world.changes:
            assert set(change.has.values()) == {"good-1"}, (steps, change.kind)
            counted = Counter(name for text, names in change.reached.items() if text.startswith("good-1") for name in names)
            assert {name for name, count in counted.items() if count > 1} <= world.set_back, (steps, change.kind)
        assert world.most_away <= MOST, steps
        steps += STRIDE


@pytest.mark.parametrize("kind", ["settings", "upgrade", "keys"])
async def test_a_halt_stays_a_halt_whoever_leads(kind: Kind) -> None:
    steps, more = 0, True
    while more:
        world = ChangesWorld(40, workers=32, most=MOST)
        await world.quiet()
        await world.edit(kind, f"{BREAKS}-1")
        more = await forth(world, steps)
        for _ in range(3):
            await world.crash(after_the_change=True)
            await settled(world)
            assert kind in world.halted
            assert world.told
            assert len(reached(world, kind, BREAKS)) == MAX_FAILURES, steps
        steps += STRIDE


async def test_a_host_out_of_reach_once_it_was_drained_has_no_turn_any_more() -> None:
    """Found by a random history: two others failed with the version meanwhile, and it got it as a third."""
    world = ChangesWorld(12, workers=1, most=3)
    await world.quiet()
    world.afflict("win-0", "unreachable")
    await world.edit("upgrade", f"{BREAKS}-1")
    await world.quiet()
    assert len(reached(world, "upgrade", BREAKS)) == MAX_FAILURES
    world.afflict("win-0", "")
    await settled(world)
    assert "win-0" not in reached(world, "upgrade", BREAKS)
    assert not any(value for annotations in world.annotations.values() for value in annotations.values())


async def test_a_host_whose_node_is_gone_once_it_was_begun_has_no_turn_any_more() -> None:
    """A machine that died in its upgrade: the others do not wait until a person removes its instance."""
    world = ChangesWorld(12, workers=1, most=3)
    await world.quiet()
    await world.edit("upgrade", "good-1")
    known = world.upgrade.rollouts.find
    while (rollout := known(world.target("win-0"))) is None or not rollout.state.in_progress:
        assert await forth(world, 1)
    (name,) = rollout.state.in_progress
    assert not rollout.state.can_admit("win-5")
    world.interruptions.end_interruption(ObjectKey(NAMESPACE, name))
    assert rollout.state.can_admit("win-5")
    assert not world.slots.has(ObjectKey(NAMESPACE, name))


async def test_a_version_that_the_process_before_is_at_is_awaited() -> None:
    """Its host may be harmed: the others do not get it before that is known."""
    world = ChangesWorld(12, workers=1, most=3)
    await world.quiet()
    await world.edit("upgrade", f"{BREAKS}-1")
    while not any(item.stage == "changing" and item.drained for item in world.passes.values()):
        assert await forth(world, 1)
    await world.crash(after_the_change=False, runs_on=True)
    await settled(world)
    assert len(reached(world, "upgrade", BREAKS)) == MAX_FAILURES
    assert "upgrade" in world.halted


async def test_a_process_that_ends_before_it_wrote_what_came_of_two_hosts() -> None:
    """Found by a random history: the next process goes on with both, and with no third one."""
    world = ChangesWorld(12, workers=4, most=3)
    await world.quiet()
    await world.edit("keys", f"{BREAKS}-1")
    for _ in range(MAX_FAILURES):
        await world.begin()
        name = list(world.passes)[-1]
        while world.passes[name].stage != "prepare":
            await world.step(name)
    await world.crash(after_the_change=True)
    next_one = await world.keys.rollouts.get_or_open(world.target("win-0"), world.compute_hash)
    assert len(next_one.state.in_progress) == MAX_FAILURES
    await settled(world)
    assert len(reached(world, "keys", BREAKS)) == MAX_FAILURES
    assert "keys" in world.halted


async def test_who_was_left_as_it_was_is_not_begun_for_the_next_process() -> None:
    """Found by a random history: the key reached a third host, whose turn another one had got meanwhile."""
    world = ChangesWorld(12, workers=4, most=3)
    await world.quiet()
    await world.edit("keys", f"{BREAKS}-1")
    begun = []
    for trouble in ("unreachable", ""):
        await world.begin()
        begun.append(name := list(world.passes)[-1])
        while world.passes[name].stage != "moving":
            await world.step(name)
        if trouble:
            world.trouble[name] = trouble
            await world.step(name)
            assert world.passes[name].stage == "prepare"
    await world.crash(after_the_change=True)
    next_one = await world.keys.rollouts.get_or_open(world.target("win-0"), world.compute_hash)
    assert next_one.state.in_progress == set(begun[1:])
