"""Workers and kubelets of a drawn world of rollouts: the rules that all such worlds share."""

import asyncio
import os
from abc import abstractmethod
from typing import Any
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from tests.support.hosts_world import Trouble

from transom.controllers.rollout import heartbeats

HISTORIES = settings(
    max_examples=int(os.environ.get("TRANSOM_HISTORIES", "30")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # a long run is to find what there is; without the variable what was found is made small
    phases=list(Phase) if "TRANSOM_HISTORIES" not in os.environ else (Phase.explicit, Phase.generate),
)
LIVES = st.lists(st.integers(1, 20), max_size=3)
"""Steps after which the processes end that follow one that has ended."""
_NUMBERS = st.integers(0, 11)
_TROUBLES = st.sampled_from(["unreachable", "restarts", "dead"])


class DrawnWorld(RuleBasedStateMachine):
    """`world` is a `World` or a `ChangesWorld` of 12 hosts; each step of each of its passes is made in any order."""

    world: Any
    flawless: bool
    """Whether nothing goes wrong on hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.runner, self.edits = asyncio.Runner(), 0
        # a kubelet that was not heard of by now is dead
        self._no_patience = patch.object(heartbeats, "HEARTBEAT_SECONDS", 0.0)
        self._no_patience.start()

    @abstractmethod
    async def rest(self) -> None:
        """What is wrong with what was asked for is mended: it comes to rest, and nothing is left over."""

    @abstractmethod
    def nobody_follows_before_their_turn(self) -> None:
        """How many were begun is right, after each step: a moment later more may be."""

    @rule()
    def resume(self) -> None:
        self.edits += 1
        self.world.resume(f"word-{self.edits}")

    @precondition(lambda self: not self.flawless)
    @rule(numbers=st.sets(_NUMBERS, min_size=1, max_size=3), trouble=_TROUBLES)
    def afflict(self, numbers: set[int], trouble: Trouble) -> None:
        for number in sorted(numbers):
            self.world.afflict(f"win-{number}", trouble)

    @precondition(lambda self: any(self.world.trouble.values()))
    @rule(number=_NUMBERS)
    def heal(self, number: int) -> None:
        ill = [name for name, trouble in self.world.trouble.items() if trouble]
        self.world.afflict(ill[number % len(ill)], "")

    async def _work_into_a_change(self, number: int, steps: int) -> None:
        """So many steps, and on until a host is being changed: then an end harms the most."""
        await self._work(number, steps)
        for step in range(60):
            if self.world.changing:
                return
            await self._work(number + step, 1)

    async def _work(self, number: int, steps: int) -> None:
        for step in range(steps):
            if self.world.startable and (number + step) % 3:
                await self.world.begin()
            elif self.world.passes:
                passes = list(self.world.passes)
                await self.world.step(passes[(number * 7 + step) % len(passes)])
            self.nobody_follows_before_their_turn()

    @rule()
    def hear(self) -> None:
        self.runner.run(self._hear())

    async def _hear(self) -> None:
        if self.world.turns.pending_heartbeats:
            await asyncio.wait(self.world.turns.pending_heartbeats)

    @rule()
    def quiet(self) -> None:
        self.runner.run(self.world.quiet())

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                for name in self.world.names:
                    self.world.afflict(name, "")
                self.runner.run(self.rest())
        finally:
            self.runner.close()
            self._no_patience.stop()
