"""What a ConfigMap gets of the trust bundle, a text of 200 kB made once for all of them, and who else writes there."""

import hashlib
from pathlib import Path
from typing import Final

import msgspec

from transom.kube.store import ObjectKey
from transom.proxy.trust import SYSTEM_CA_FILE, Certificate, trust_text


class BundleText:
    """The text with the system's CAs or without them, and its SHA-256."""

    def __init__(self, system_ca_file: str = SYSTEM_CA_FILE) -> None:
        self.system_ca_file = system_ca_file
        self._trust: tuple[Certificate, ...] = ()
        self._made: dict[bool, tuple[str, str]] = {}

    def of(self, trust: tuple[Certificate, ...], *, bundle_only: bool = False) -> tuple[str, str]:
        """Text and SHA-256 in lower-case hex. Raises OSError where the system's CAs cannot be read."""
        if self._trust != trust:
            self._trust, self._made = trust, {}
        if bundle_only not in self._made:
            system = "" if bundle_only else Path(self.system_ca_file).read_text()
            text = trust_text(trust, system)
            self._made[bundle_only] = text, hashlib.sha256(text.encode()).hexdigest()
        return self._made[bundle_only]


ROUNDS: Final = 3
"""So often something is put right before it is left to the other."""


class _Fight(msgspec.Struct, frozen=True):
    wanted: str
    rounds: int = 0


class Rivals:
    """How often each object was written with one and the same content: two that never give way must not make a loop of it."""

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
