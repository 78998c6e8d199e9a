"""Workers and kubelets of a drawn world of rollouts: the rules that all such worlds share."""

import asyncio
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, rule


class DrawnWorld(RuleBasedStateMachine):
    """`world` is a `World` or a `ChangesWorld`; each step of each of its passes is made in any order."""

    runner: asyncio.Runner
    world: Any

    async def _work(self, number: int, steps: int) -> None:
        for step in range(steps):
            if self.world.startable and (number + step) % 3:
                await self.world.begin()
            elif self.world.passes:
                passes = list(self.world.passes)
                await self.world.step(passes[(number * 7 + step) % len(passes)])

    @rule()
    def hear(self) -> None:
        self.runner.run(self._hear())

    async def _hear(self) -> None:
        if self.world.turns.listening:
            await asyncio.wait(self.world.turns.listening)

    @rule()
    def quiet(self) -> None:
        self.runner.run(self.world.quiet())
