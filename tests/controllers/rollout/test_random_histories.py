"""Random histories of hosts, edits, failures and leaders. `TRANSOM_HISTORIES` says how many; see `benchmarks.mutants`."""

import asyncio
from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from tests.support.drawn_world import HISTORIES, LIVES, DrawnWorld
from tests.support.hosts_world import BAD, BREAKS, Trouble
from tests.support.rollout_world import World

from transom.rollout.state import MAX_FAILURES


class Histories(DrawnWorld):
    """12 hosts and up to 8 workers, each step of each pass in any order."""

    @initialize(
        workers=st.integers(1, 8),
        nodes=st.booleans(),
        kind=st.sampled_from(["settings", "settings", "upgrade", "keys"]),
        flawless=st.booleans(),
    )
    def begin(self, workers: int, nodes: bool, kind: str, flawless: bool) -> None:
        self.flawless = flawless
        self.world = World(12, workers=workers, kind=kind, nodes=nodes)
        self.runner.run(self.world.quiet())

    @rule(what=st.sampled_from(["good", "good", BAD, BREAKS]))
    def edit(self, what: str) -> None:
        self.edits += 1
        self.world.edit(f"http://{what}-{self.edits}")

    @rule()
    def other_endpoint(self) -> None:
        self.edits += 1
        self.world.edit(self.world.want, f"https://x-{self.edits}")

    @precondition(lambda self: not self.flawless)
    @rule(many=st.sampled_from([2, 2, 1]), trouble=st.sampled_from(["restarts", "dead"]))
    def the_first_fail(self, many: int, trouble: Trouble) -> None:
        self.quiet()
        for name in self.world.names[:many]:
            self.world.afflict(name, trouble)
        self.edit("good")
        self.quiet()

    @rule()
    def quiet(self) -> None:
        super().quiet()
        world = self.world
        known = world.rollouts.find(world.target("win-0"))
        if "good" in world.want:
            # who is well again is no failure any more
            assert known is None or all(world.trouble[host] for host in known.state.failed)
        elif not world.flawed and set(world.has.values()) != {world.want}:
            # who was begun by a process before speaks against it, too
            assert world.halted

    @rule(after_the_change=st.booleans(), runs_on=st.booleans())
    def crash(self, after_the_change: bool, runs_on: bool = False) -> None:
        self.runner.run(self._stop())
        self.world.crash(after_the_change=after_the_change, runs_on=runs_on)

    @rule(after_the_change=st.booleans(), runs_on=st.booleans())
    def lose_lease(self, after_the_change: bool, runs_on: bool) -> None:
        self.runner.run(self._stop())
        self.world.lose_lease(after_the_change=after_the_change, runs_on=runs_on)

    @rule(
        what=st.sampled_from(["good", BREAKS]),
        before=st.integers(1, 20),
        meanwhile=st.integers(10, 60),
        runs_on=st.booleans(),
    )
    def lose_lease_for_a_while(self, what: str, before: int, meanwhile: int, runs_on: bool) -> None:
        self.edit(what)
        self.runner.run(self._work(before, before))
        self.lose_lease(True, runs_on)
        self.runner.run(self._work(meanwhile, meanwhile))
        self.lose_lease(True, runs_on)

    async def _stop(self) -> None:
        listening = self.world.turns.pending_heartbeats
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)

    @rule(number=st.integers(0, 100), steps=st.integers(1, 12))
    def work(self, number: int, steps: int) -> None:
        self.runner.run(self._work(number, steps))

    @rule(number=st.integers(0, 100), steps=st.integers(1, 60))
    def work_long(self, number: int, steps: int) -> None:
        self.runner.run(self._work(number, steps))

    @rule(
        what=st.sampled_from(["good", BAD, BREAKS]),
        steps=st.integers(0, 40),
        after_the_change=st.booleans(),
        runs_on=st.booleans(),
        lives=LIVES,
        rests=st.booleans(),
    )
    def edit_and_crash(
        self, what: str, steps: int, after_the_change: bool, runs_on: bool, lives: list[int], rests: bool
    ) -> None:
        self.edit(what)
        self.runner.run(self._work_into_a_change(steps, steps))
        self.crash(after_the_change, runs_on)
        for steps in lives:
            self.runner.run(self._work(steps, steps))
            self.crash(after_the_change, runs_on)
        if rests:
            self.quiet()

    @precondition(lambda self: self.world.halted)
    @rule(crash=st.booleans())
    def all_are_well_again(self, crash: bool) -> None:
        for name in self.world.names:
            self.world.afflict(name, "")
        self.quiet()
        if crash:
            self.crash(True)
            self.quiet()

    @invariant()
    def a_wrong_change_reaches_two_hosts_at_most(self) -> None:
        for text, hosts in self.world.changed.items():
            if f"http://{BAD}" in text or f"http://{BREAKS}" in text:
                assert len(set(hosts)) <= MAX_FAILURES, text

    @invariant()
    def a_wrong_proxy_reaches_one_host(self) -> None:
        if self.world.kind == "settings" and not self.world.flawed:
            for text, hosts in self.world.changed.items():
                assert f"http://{BAD}" not in text or len(set(hosts)) <= 1, text

    @invariant()
    def nobody_is_changed_twice(self) -> None:
        for text, hosts in self.world.changed.items():
            if f"http://{BREAKS}" not in text:
                assert all(count == 1 or host in self.world.flawed for host, count in Counter(hosts).items()), text

    @invariant()
    def a_halt_stays_a_halt(self) -> None:
        for text, hosts in self.world.halts.items():
            assert set(self.world.changed.get(text, ())) <= hosts, text

    @invariant()
    def nobody_gets_what_is_known_to_be_outdated(self) -> None:
        assert not self.world.outdated

    @invariant()
    def nobody_follows_before_their_turn(self) -> None:
        world = self.world
        known = world.rollouts.find(world.target("win-0"))
        if known is None or known.state.completed:
            return
        rollout = known.state
        begun = rollout.in_progress | rollout.passed
        if len(rollout.passed) < rollout.first_hosts_count:
            assert len(begun - set(rollout.failed)) <= rollout.first_hosts_count
        assert len(begun - set(rollout.failed)) <= (1 if not rollout.passed else len(world.names))
        assert all(world.has[host] == world.want for host in rollout.passed - rollout.in_progress)
        assert not (rollout.passed & world.silent - rollout.in_progress)
        assert not rollout.passed & set(rollout.failed)
        assert world.halted == known.queue.halted

    async def rest(self) -> None:
        world = self.world
        # a process that has just begun has said nothing yet of a halt
        await world.quiet()
        good = "good" in world.want
        if world.halted and good:
            world.resume("at last")
        elif not good:
            world.edit("http://good-at-last")
        world.ask_all()
        await world.quiet()
        world.ask_all()
        await world.quiet()
        assert set(world.has.values()) == {world.want}
        known = world.rollouts.find(world.target("win-0"))
        assert known is not None
        assert known.state.completed
        assert not world.halted


TestHistories = Histories.TestCase
TestHistories.settings = HISTORIES
