"""A plan in the making: what is wanted, what is there, the ledger as it is to be, and what was found to do so far."""

import msgspec

from transom.windows import installation, ledger
from transom.windows.registry import DeleteValue, Edit, NamedValue, SetValue
from transom.windows.state import HostState
from transom.windows.steps import Step
from transom.windows.taken import Taken


class Draft:
    """The ledger is a copy, changed by each part of the plan and compared at the end; so are the keys that Transom made."""

    def __init__(self, desired: HostState, actual: HostState, salt: bytes, taken: Taken | None) -> None:
        self.desired = desired
        self.old = ledger.read(actual.registry)
        # once: what comes to be there later is somebody else's again
        self.taken = taken if not self.old.state_hash else None
        self.decision = installation.decide(desired, actual, self.old.installed, self.old.salt or salt)
        self.found, self.actual = actual, self.decision.actual
        """The host as it was read, and as the installation leaves it."""
        self.ledger = msgspec.structs.replace(
            self.old,
            installed=self.decision.before,
            salt=self.old.salt or salt,
            machine=dict(self.old.machine),
            services=dict(self.old.services),
            certificates={name: dict(held) for name, held in self.old.certificates.items()},
        )
        self.keys = list(self.old.keys)
        self.steps: list[Step] = list(self.decision.steps)
        self.edits: list[Edit] = []
        self.restarts: dict[str, str] = dict(self.decision.restarts)
        """Services to restart, with the reason."""
        self.warnings: list[str] = list(self.decision.warnings)

    def set_value(self, path: str, held: NamedValue | None, wanted: NamedValue | None) -> None:
        """The edits from the value that is there (None: none) to the one that is wanted, under its name as spelled."""
        if held is not None and wanted is not None and held.value == wanted.value:
            return
        if held is not None and (wanted is None or held.name != wanted.name):
            self.edits.append(DeleteValue(path, held.name))
        if wanted is not None:
            self.edits.append(SetValue(path, wanted.name, wanted.value))
