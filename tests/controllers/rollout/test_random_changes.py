"""Random histories of settings, versions and keys together. `TRANSOM_HISTORIES` says how many: see `benchmarks.mutants`."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from tests.support.changes_world import KINDS, ChangesWorld, Kind
from tests.support.drawn_world import HISTORIES, LIVES, DrawnWorld
from tests.support.hosts_world import BAD, BREAKS

from transom.rollout.state import MAX_FAILURES

WHAT = st.sampled_from(["good", "good", BAD, BREAKS])


class Changes(DrawnWorld):
    """12 nodes and up to 8 workers, each step of each pass in any order."""

    @initialize(workers=st.integers(1, 8), most=st.integers(1, 4), flawless=st.booleans())
    def begin(self, workers: int, most: int, flawless: bool) -> None:
        self.flawless = flawless
        self.world = ChangesWorld(12, workers=workers, most=most)
        self.runner.run(self.world.quiet())

    @rule(kind=st.sampled_from(KINDS), what=WHAT)
    def edit(self, kind: Kind, what: str) -> None:
        self.edits += 1
        # nothing has egress, or not, by a version or a key
        name = f"{what if kind == 'settings' or what != BAD else 'good'}-{self.edits}"
        self.runner.run(self.world.edit(kind, name))

    @rule(what=WHAT, version=WHAT)
    def edit_in_an_upgrade(self, what: str, version: str) -> None:
        self.edit("upgrade", version)
        self.runner.run(self._work(7, 25))
        self.edit("settings", what)
        self.runner.run(self._work(5, 40))

    @rule(after_the_change=st.booleans(), runs_on=st.booleans())
    def crash(self, after_the_change: bool, runs_on: bool) -> None:
        self.runner.run(self.world.crash(after_the_change=after_the_change, runs_on=runs_on))

    @rule(
        kind=st.sampled_from(KINDS),
        what=WHAT,
        steps=st.integers(0, 60),
        runs_on=st.booleans(),
        lives=LIVES,
        rests=st.booleans(),
    )
    def crash_in_a_change(self, kind: Kind, what: str, steps: int, runs_on: bool, lives: list[int], rests: bool) -> None:
        self.edit(kind, what)
        self.runner.run(self._work_into_a_change(steps, steps))
        self.crash(after_the_change=True, runs_on=runs_on)
        for steps in lives:
            self.runner.run(self._work(steps, steps))
            self.crash(after_the_change=True, runs_on=runs_on)
        if rests:
            self.quiet()

    @rule(number=st.integers(0, 100), steps=st.integers(1, 80))
    def work(self, number: int, steps: int) -> None:
        self.runner.run(self._work(number, steps))

    @rule(seconds=st.sampled_from([60, 1800, 7200]))
    def tick(self, seconds: int) -> None:
        self.runner.run(self._tick(seconds))

    async def _tick(self, seconds: int) -> None:
        self.world.tick(seconds)

    @invariant()
    def a_wrong_change_reaches_two_hosts_at_most(self) -> None:
        for change in self.world.changes:
            for item, hosts in change.reached.items():
                if item.startswith((BAD, BREAKS)):
                    assert len(set(hosts)) <= MAX_FAILURES, (change.kind, item, hosts)

    @invariant()
    def a_wrong_proxy_reaches_one_host(self) -> None:
        for item, hosts in self.world.settings.reached.items():
            if not self.world.flawed:
                assert not item.startswith(BAD) or len(set(hosts)) <= 1, (item, hosts)

    @invariant()
    def no_more_nodes_are_away_than_may(self) -> None:
        assert self.world.most_away <= self.world.most

    @invariant()
    def nobody_is_changed_twice(self) -> None:
        excused = self.world.flawed | self.world.set_back
        for change in self.world.changes:
            for item, hosts in change.reached.items():
                if item.startswith("good"):
                    assert {host for host, count in Counter(hosts).items() if count > 1} <= excused, (change.kind, item, hosts)

    @invariant()
    def nobody_follows_before_their_turn(self) -> None:
        target = self.world.target("win-0")
        for change in self.world.changes:
            known = change.rollouts.find(target)
            if known is None or known.state.completed:
                continue
            rollout = known.state
            begun = (rollout.in_progress | rollout.passed) - set(rollout.failed)
            # of who was begun by the process before it may not have been written what came of it
            before = self.world.begun_before[known.change_id]
            if len(rollout.passed) < rollout.first_hosts_count:
                assert len(begun) <= max(rollout.first_hosts_count, before), change.kind
            assert rollout.passed or len(begun) <= max(1, before), change.kind
            assert not rollout.passed & set(rollout.failed), change.kind

    @invariant()
    def people_are_told_of_a_halt(self) -> None:
        assert self.world.told == bool(self.world.halted)

    async def rest(self) -> None:
        world = self.world
        for change in world.changes:
            if not change.want.startswith("good"):
                await world.edit(change.kind, "good-at-last")
        await world.quiet()
        if world.halted:
            world.resume("at last")
        for _ in range(12):
            world.tick(world.hold + 1)
            await world.quiet()
        for change in world.changes:
            assert set(change.has.values()) == {change.want}, change.kind
        assert not world.halted
        assert not world.told
        assert not any(value for annotations in world.annotations.values() for value in annotations.values())
        assert world.passed == world.settings.want


TestChanges = Changes.TestCase
TestChanges.settings = HISTORIES
