"""What becomes of many hosts over time: every step of a good rollout is the moment of an edit, or the end of a process."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.support.hosts_world import START
from tests.support.rollout_world import World

from transom.controllers.rollout import heartbeats, open_rollout
from transom.rollout.state import MAX_FAILURES

GOOD, BAD, BREAKS = "http://good-1", "http://bad", "http://breaks"


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubelet that was not heard of by now is dead."""
    monkeypatch.setattr(heartbeats, "HEARTBEAT_SECONDS", 0.0)


async def forth(world: World, steps: int) -> bool:
    """So many steps of a rollout, workers first, so that as many as can be are under way; whether there were so many."""
    for _ in range(steps):
        if world.startable:
            await world.begin()
        elif world.passes:
            await world.step(next(iter(world.passes)))
        else:
            return False
    return True


def reached(world: World, proxy: str) -> int:
    return len({name for text, names in world.changed.items() if f'"{proxy}"' in text for name in names})


@pytest.mark.parametrize(
    ("proxy", "most", "kind"),
    [
        (BAD, 1, "settings"),
        (BREAKS, MAX_FAILURES, "settings"),
        (BREAKS, MAX_FAILURES, "upgrade"),
        (BREAKS, MAX_FAILURES, "keys"),
    ],
)
async def test_a_wrong_change_edited_in_at_any_step_of_a_good_one(proxy: str, most: int, kind: str) -> None:
    """40 hosts, 32 workers: however many are under way with what held before, the canary alone gets it."""
    steps = 0
    while True:
        world = World(40, workers=32, kind=kind)
        await world.quiet()
        world.edit(GOOD)
        more = await forth(world, steps)
        world.edit(proxy)
        await world.quiet()
        assert reached(world, proxy) == most, steps
        assert world.halted
        world.ask_all()
        await world.quiet()
        assert reached(world, proxy) == most, steps
        world.edit(GOOD)
        await world.quiet()
        assert set(world.has.values()) == {GOOD}
        assert not world.halted
        if not more:
            return
        steps += 1


@pytest.mark.parametrize("after_the_change", [False, True])
@pytest.mark.parametrize("nodes", [False, True])
async def test_a_leader_that_ends_at_any_step(after_the_change: bool, nodes: bool) -> None:
    """The next one goes on: no host is changed twice, and in the beginning never two that nobody has heard of."""
    steps = 0
    while True:
        world = World(40, workers=32, nodes=nodes)
        await world.quiet()
        world.edit(GOOD)
        more = await forth(world, steps)
        begun = sum(has == GOOD for has in world.has.values())
        world.crash(after_the_change=after_the_change)
        known = next((item for item in [await world.rollouts.get_or_open(world.target("win-0"), world.compute_hash)]), None)
        assert known is not None
        if begun < 4:
            assert len(known.state.passed | known.state.in_progress) >= begun
        await world.quiet()
        assert set(world.has.values()) == {GOOD}
        changed = Counter(name for text, names in world.changed.items() if GOOD in text for name in names)
        assert set(changed.values()) == {1}, steps
        assert known.state.completed
        if not more:
            return
        steps += 1


@pytest.mark.parametrize(("proxy", "most"), [(BAD, 1), (BREAKS, MAX_FAILURES)])
@pytest.mark.parametrize("after_the_change", [False, True])
async def test_a_halt_stays_a_halt_whoever_leads(proxy: str, most: int, after_the_change: bool) -> None:
    steps = 0
    while True:
        world = World(40, workers=32)
        await world.quiet()
        world.edit(proxy)
        more = await forth(world, steps)
        for _ in range(3):
            world.crash(after_the_change=after_the_change)
            await world.quiet()
            assert world.halted
            assert reached(world, proxy) == most, steps
        if not more:
            return
        steps += 1


@pytest.mark.parametrize("skew", [-600, -300, -45, 200, 300])
@pytest.mark.parametrize("stage", ["canary", "later"])
async def test_a_kubelet_is_heard_of_by_its_own_clock(skew: int, stage: str) -> None:
    world = World(12, nodes=True)
    await world.quiet()
    dead = "win-0" if stage == "canary" else "win-7"
    for name in world.names:
        world.beats[name] = START.replace(hour=12).fromtimestamp(START.timestamp() + skew, START.tzinfo)
    world.start()
    world.trouble[dead] = "dead"
    world.edit(GOOD)
    await world.quiet()
    known = world.rollouts.find(world.target(dead))
    assert known is not None
    assert known.state.failed == (dead,)
    assert set(world.has.values()) == {GOOD}
    # another process knows it, and hears of it when it is back
    world.start()
    await world.quiet()
    known = world.rollouts.find(world.target(dead))
    assert known is not None
    assert known.state.failed == (dead,)
    world.trouble[dead] = ""
    world.revive(dead)
    world.ask_all()
    await world.quiet()
    assert known.state.failed == ()
    assert known.state.completed


async def test_flaws_of_single_hosts_are_their_own() -> None:
    world = World(20)
    await world.quiet()
    world.trouble |= {"win-3": "unreachable", "win-5": "restarts"}
    world.edit(GOOD)
    await world.quiet()
    assert sorted(name for name, has in world.has.items() if has != GOOD) == ["win-3"]
    world.trouble |= {"win-3": "", "win-5": ""}
    world.ask_all()
    await world.quiet()
    known = world.rollouts.find(world.target("win-0"))
    assert known is not None
    assert known.state.completed
    assert not world.halted


async def test_nodes_that_are_not_ready_wait_their_turn_and_prove_nothing() -> None:
    """Each is changed alone until a Node was heard of again."""
    world = World(12, nodes=True)
    await world.quiet()
    for name in world.names[:4]:
        world.fell(name)
    world.edit(GOOD)
    while await forth(world, 1) or world.turns.pending_heartbeats:
        await asyncio.gather(*world.turns.pending_heartbeats)
        (rollout,) = world.rollouts._open.values()
        assert not rollout.state.passed & world.down
        assert rollout.state.passed or len(rollout.state.in_progress) <= 1
    assert set(world.has.values()) == {GOOD}
    assert rollout.state.completed


async def cut(proxy: str, *, nodes: bool = False) -> World:
    """A process that ended while the script ran that changes the first host, and the next one, which has just begun."""
    world = World(12, workers=4, nodes=nodes)
    await world.quiet()
    world.edit(proxy)
    while not any(item.changing for item in world.passes.values()):
        await forth(world, 1)
    world.crash(after_the_change=False, runs_on=True)
    assert list(world.running) == ["win-0"]
    return world


@pytest.mark.parametrize(("proxy", "most"), [(BAD, 1), (BREAKS, MAX_FAILURES)])
async def test_a_host_that_the_process_before_is_at_keeps_its_turn(proxy: str, most: int) -> None:
    world = await cut(proxy)
    await world.quiet()
    assert reached(world, proxy) == most
    assert world.halted


async def test_a_kubelet_that_was_heard_of_while_its_host_was_held_is_not_waited_for_again() -> None:
    world = await cut(GOOD, nodes=True)
    world.revive("win-0")
    # it says nothing more when the script ends
    world.trouble["win-0"] = "dead"
    await world.quiet()
    known = world.rollouts.find(world.target("win-0"))
    assert known is not None
    assert known.state.failed == ()
    assert known.state.completed


async def test_a_host_that_is_held_for_longer_than_a_pass_can_last_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_rollout, "LOCK_PATIENCE", 0.0)
    world = await cut(GOOD)
    await world.begin()
    while not world.passes["win-0"].changing:
        await world.step("win-0")
    await world.step("win-0")
    known = world.rollouts.find(world.target("win-0"))
    assert known is not None
    assert (known.state.failed, known.state.in_progress) == (("win-0",), frozenset())
    await world.quiet()
    assert known.state.completed


class Written(World):
    """Statuses that count how often rollouts write them."""

    writes = 0

    async def _write(self, *of: Any) -> None:
        self.writes += 1
        await super()._write(*of)


@pytest.mark.parametrize(("concludes", "writes"), [(True, 0), (False, 1)])
async def test_a_host_that_is_heard_of_as_its_pass_ends_is_written_once(concludes: bool, writes: int) -> None:
    """What the pass is about to write says that it was heard of; else it is written by itself. That it was begun is not."""
    world = Written(12, workers=1, nodes=True)
    await world.quiet()
    world.edit(GOOD)
    while not world.turns.pending_heartbeats:
        await forth(world, 1)
    case, target = world._case("win-0"), world.target("win-0")
    await (world.turns.wait_for_heartbeats(case) if concludes else asyncio.wait(world.turns.pending_heartbeats))
    assert ":passed" in world.turns.build_markers(case, target)
    assert world.writes == writes
