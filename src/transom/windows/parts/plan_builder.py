"""A plan in the making: desired state, actual state, and the steps that the parts added so far."""

from typing import Literal

from transom.windows.host.host_state import DesiredState, FileWrite, ObservedState, Step
from transom.windows.host.ledger_entries import compute_value_digest
from transom.windows.parts.adopted import AdoptedState
from transom.windows.registry.edits import DeleteValue, Edit, SetValue
from transom.windows.registry.registry import NamedValue

When = Literal["now", "boot", "manual"]
"""When services restart: now, with the next reboot, or on request."""


class PlanBuilder:
    """What each part of a plan is given, and what it adds to."""

    def __init__(
        self,
        desired: DesiredState,
        observed: ObservedState,
        salt: bytes,
        *,
        when: When = "now",
        taken: AdoptedState | None = None,
        was_changed_before: bool = False,
    ) -> None:
        self.desired = desired
        self.observed = self.actual = observed
        """The observed host, and the host after the installation."""
        self.when = when
        self.was_changed_before = was_changed_before
        """Whether a plan was carried out on the host before."""
        # once: what is created there later belongs to others again
        self.taken = None if was_changed_before else taken
        self.steps: list[Step] = []
        self.edits: list[Edit] = []
        self.made_keys: list[str] = []
        """Keys that `edits` make, parents first: recorded, and deleted when they are empty."""
        self.used_keys: list[str] = []
        """Keys that hold something of Transom's."""
        self.restarts: dict[str, str] = {}
        """Services to restart, with the reason."""
        self.trusting: tuple[str, ...] = ()
        """Services that must have started after Transom added its certificates."""
        self.removed: tuple[str, ...] = ()
        """Services that the installation deletes."""
        self.needed: tuple[str, ...] = ()
        """Services that have to run, and do not."""
        self.stop: tuple[str, ...] = ()
        self.start: tuple[str, ...] = ()
        self.warnings: list[str] = []
        self.faults: list[str] = []
        """What cannot be done, and is left."""
        self.profile_fault = ""
        """Why the profile of Windows PowerShell is left; empty: it is not."""
        self.writes: list[FileWrite] = []
        self.disabled: tuple[str, ...] = ()
        """Services that run and owe a restart, and that Windows would not start again."""
        self._salt = salt

    def compute_digest(self, name: str, value: str) -> str:
        """Return the salted hash that shows whether a value is still the one that Transom set."""
        return compute_value_digest(self._salt, name, value)

    def set_value(self, path: str, present: NamedValue | None, wanted: NamedValue | None) -> None:
        """Add the edits from the present value (None: missing) to the wanted one, with the name as spelled there."""
        if present is not None and wanted is not None and present.value == wanted.value:
            return
        if present is not None and (wanted is None or present.name != wanted.name):
            self.edits.append(DeleteValue(path, present.name))
        if wanted is not None:
            self.edits.append(SetValue(path, wanted.name, wanted.value))
