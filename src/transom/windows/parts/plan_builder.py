"""A plan in the making: what is wanted, what is there, the ledger as it is to be, and what was found to do so far."""

import msgspec

from transom.windows.host.queries import SERVICES
from transom.windows.host.state import DesiredState, ObservedState
from transom.windows.host.steps import Step
from transom.windows.ledger import ledger
from transom.windows.ledger.ledger import Ledger
from transom.windows.parts import installation
from transom.windows.parts.adopted import Adopted
from transom.windows.registry.names import listed
from transom.windows.registry.registry import CreateKey, DeleteValue, Edit, NamedValue, SetValue


class PlanBuilder:
    """The ledger is a copy, changed by each part of the plan and compared at the end; so are the keys that Transom made."""

    def __init__(self, desired: DesiredState, actual: ObservedState, salt: bytes, taken: Adopted | None) -> None:
        self.old = ledger.read(actual.registry)
        self.payload_stays = desired.payload is None and bool(self.old.installed)
        """Whether a payload is there of which the wish knows nothing."""
        self.desired = _with_services_of_payload(desired, self.old) if self.payload_stays else desired
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
            certificates={name: dict(present) for name, present in self.old.certificates.items()},
        )
        self.keys = list(self.old.keys)
        self.steps: list[Step] = list(self.decision.steps)
        self.edits: list[Edit] = []
        self.restarts: dict[str, str] = dict(self.decision.restarts)
        """Services to restart, with the reason."""
        self.warnings: list[str] = list(self.decision.warnings)
        self.faults: list[str] = []
        """What cannot be done, and is left."""

    def set_value(self, path: str, present: NamedValue | None, wanted: NamedValue | None) -> None:
        """The edits from the value that is there (None: none) to the one that is wanted, under its name as spelled."""
        if present is not None and wanted is not None and present.value == wanted.value:
            return
        if present is not None and (wanted is None or present.name != wanted.name):
            self.edits.append(DeleteValue(path, present.name))
        if wanted is not None:
            self.edits.append(SetValue(path, wanted.name, wanted.value))


def _with_services_of_payload(desired: DesiredState, old: Ledger) -> DesiredState:
    """The wish with the services that a payload gives the proxy to: they get what the others get, or lose it as those do."""
    named = desired.registry.children(SERVICES)
    theirs = [name for name in old.services if old.installed.service(name) is not None and not listed(name, named)]
    values = (key.get("Environment") for key in desired.registry.below(SERVICES))
    given = next((value for value in values if value is not None), None)
    paths = [rf"{SERVICES}\{name}" for name in theirs]
    edits = [CreateKey(path) if given is None else SetValue(path, "Environment", given) for path in paths]
    return msgspec.structs.replace(desired, registry=desired.registry.apply(edits))
