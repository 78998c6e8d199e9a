"""A plan in the making: what is wanted, what is there, and what the parts found to do so far."""

from typing import Literal

from transom.windows.host import DesiredState, ObservedState, Step
from transom.windows.host.entries import digest
from transom.windows.parts.adopted import Adopted
from transom.windows.registry import NamedValue
from transom.windows.registry.edits import DeleteValue, Edit, SetValue

When = Literal["now", "boot", "manual"]
"""When services are restarted: now, by the next boot, or once somebody says so."""


class PlanBuilder:
    """What each part of a plan is given, and what it adds to."""

    def __init__(
        self,
        desired: DesiredState,
        found: ObservedState,
        salt: bytes,
        *,
        when: When = "now",
        taken: Adopted | None = None,
        begun: bool = False,
    ) -> None:
        self.desired = desired
        self.found = self.actual = found
        """The host as it was read, and as the installation leaves it."""
        self.when = when
        self.begun = begun
        """Whether a plan was carried out on the host before."""
        # once: what comes to be there later is somebody else's again
        self.taken = None if begun else taken
        self.steps: list[Step] = []
        self.edits: list[Edit] = []
        self.made_keys: list[str] = []
        """Keys that `edits` make, parents first: noted, to be taken away when nothing is in them."""
        self.used_keys: list[str] = []
        """Keys that hold something of Transom's."""
        self.restarts: dict[str, str] = {}
        """Services to restart, with the reason."""
        self.trusting: tuple[str, ...] = ()
        """Services that must have started since the certificates of ours came."""
        self.removed: tuple[str, ...] = ()
        """Services that the installation deletes."""
        self.needed: tuple[str, ...] = ()
        """Services that have to run, and do not."""
        self.stop: tuple[str, ...] = ()
        self.start: tuple[str, ...] = ()
        self.warnings: list[str] = []
        self.faults: list[str] = []
        """What cannot be done, and is left."""
        self._salt = salt

    def digest(self, name: str, value: str) -> str:
        """The salted hash that tells whether a value is still the one that was set."""
        return digest(self._salt, name, value)

    def set_value(self, path: str, present: NamedValue | None, wanted: NamedValue | None) -> None:
        """The edits from the value that is there (None: none) to the one that is wanted, under its name as spelled."""
        if present is not None and wanted is not None and present.value == wanted.value:
            return
        if present is not None and (wanted is None or present.name != wanted.name):
            self.edits.append(DeleteValue(path, present.name))
        if wanted is not None:
            self.edits.append(SetValue(path, wanted.name, wanted.value))
