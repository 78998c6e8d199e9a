"""The trust bundle of ConfigMaps, 200 kB rendered once for all of them, and other writers of these ConfigMaps."""

import hashlib
from typing import Final

import msgspec

from transom.common.regular_files import read_regular_text
from transom.kube.store import ObjectKey
from transom.proxy.trust import SYSTEM_CA_FILE, Certificate, format_trust_store


class BundleText:
    """The text with the system's CAs or without them, and its SHA-256."""

    def __init__(self, system_ca_file: str = SYSTEM_CA_FILE) -> None:
        self.system_ca_file = system_ca_file
        self._trust: tuple[Certificate, ...] = ()
        self._made: dict[bool, tuple[str, str]] = {}

    def render(self, trust: tuple[Certificate, ...], *, bundle_only: bool = False) -> tuple[str, str]:
        """Return the text and its SHA-256 in lower-case hex. Raises OSError if the system's CAs cannot be read."""
        if self._trust != trust:
            self._trust, self._made = trust, {}
        if bundle_only not in self._made:
            system = "" if bundle_only else read_regular_text(self.system_ca_file)
            text = format_trust_store(trust, system)
            self._made[bundle_only] = text, hashlib.sha256(text.encode()).hexdigest()
        return self._made[bundle_only]


ROUNDS: Final = 3
"""The number of corrections before Transom leaves a field to its other writer."""


class _WriteConflict(msgspec.Struct, frozen=True):
    wanted: str
    rounds: int = 0


class WriteConflicts:
    """How often each object was written with one and the same content: two that never give way must not make a loop of it."""

    def __init__(self) -> None:
        self._fights: dict[ObjectKey, _WriteConflict] = {}

    def record_rewrite(self, name: ObjectKey, wanted: str) -> bool:
        """Note that `wanted` (a hash of it) is missing once more; False if it was corrected too often."""
        fight = self._fights.get(name)
        if fight is None or fight.wanted != wanted:
            fight = _WriteConflict(wanted)
        lost = fight.rounds >= ROUNDS
        self._fights[name] = fight if lost else _WriteConflict(wanted, fight.rounds + 1)
        return not lost

    def forget(self, name: ObjectKey) -> None:
        """Forget an object that is deleted, has another owner, or is tried again."""
        self._fights.pop(name, None)

    def list_lost_objects(self) -> list[ObjectKey]:
        """Return the objects that were left to another owner."""
        return [name for name, fight in self._fights.items() if fight.rounds >= ROUNDS]
