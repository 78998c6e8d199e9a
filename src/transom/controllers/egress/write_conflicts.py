"""Who writes into an object that is ours again and again: two that never give way must not make a loop of it."""

from typing import Final

import msgspec

from transom.kube.store import ObjectKey

ROUNDS: Final = 3
"""So often something is put right before it is left to the other."""


class _Fight(msgspec.Struct, frozen=True):
    wanted: str
    rounds: int = 0


class Rivals:
    """How often each object was written with one and the same content."""

    def __init__(self) -> None:
        self._fights: dict[ObjectKey, _Fight] = {}

    def write(self, name: ObjectKey, wanted: str) -> bool:
        """Note that `wanted` (a hash of it) is missing once more; False where that was put right often enough."""
        fight = self._fights.get(name)
        if fight is None or fight.wanted != wanted:
            fight = _Fight(wanted)
        lost = fight.rounds >= ROUNDS
        self._fights[name] = fight if lost else _Fight(wanted, fight.rounds + 1)
        return not lost

    def forget(self, name: ObjectKey) -> None:
        """The object is gone, or no longer ours, or is to be tried once more."""
        self._fights.pop(name, None)

    def lost(self) -> list[ObjectKey]:
        """The objects that are left to somebody else."""
        return [name for name, fight in self._fights.items() if fight.rounds >= ROUNDS]
