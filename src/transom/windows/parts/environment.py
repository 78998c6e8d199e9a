"""The environments of a host: the machine's, and those that services have of their own. A part of a host."""

from collections.abc import Iterator

import msgspec

from transom.proxy.settings import VARIABLES, Egress
from transom.windows.host import DesiredState, Kind, Step, entries
from transom.windows.host.entries import FormerValue
from transom.windows.host.queries import ENVIRONMENT, LEDGER, SERVICES, Queries
from transom.windows.parts.adopted import TAKEN
from transom.windows.parts.environment_items import (
    LEFT,
    UNMASKED,
    DesiredItems,
    ItemChange,
    MachineVariable,
    ServiceEnvironment,
    ServiceVariable,
    is_ours,
    merge_machine,
    merge_service,
    type_fault,
)
from transom.windows.parts.part import About, Assumption
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry import NamedValue, Registry
from transom.windows.registry.edits import CreateKey, Edit, SetValue
from transom.windows.registry.names import FoldedDict, each_once, listed, same
from transom.windows.registry.values import ValueType, multi_sz, sz

MACHINE_LINES = LEDGER + r"\Environment\Machine"
SERVICE_LINES = LEDGER + r"\Environment\Services"
ABOUT = About(
    r"`HKLM\SYSTEM\CurrentControlSet\Services\<name>`, value `Environment`",
    "proxy variables of a service, **with the password**",
    "**every local user of that machine**: Windows lets Users read the key, and the service has to. With "
    "`spec.windows.environmentScope: Machine` the machine's environment, likewise",
    (
        Assumption(
            "Running services, and services restarted before a boot, do not see a change of the machine environment",
            'Microsoft Learn, "Environment Variables" (services inherit the SCM\'s environment, made at boot)',
            "`setx /m T 1`, restart a service, Process Explorer",
        ),
    ),
)


class Environments(msgspec.Struct, frozen=True):
    """The ledger's entry: variables of the machine by name, in upper case, and environments of services by name."""

    machine: dict[str, MachineVariable] = {}
    services: dict[str, ServiceEnvironment] = {}

    def __bool__(self) -> bool:
        """Whether any variable is ours."""
        return bool(self.machine or self.services)

    @property
    def hides(self) -> bool:
        """Whether something of ours only hides a variable of the machine until the next boot."""
        masks = any(one.mask is not None for service in self.services.values() for one in service.variables.values())
        return masks or any(one.gone is not None for one in self.machine.values())


class _Before(msgspec.Struct, frozen=True):
    value: FormerValue | None = None


def wish(egress: Egress) -> Iterator[Edit]:
    """A key for every service of the settings, whether or not it gets an environment of its own: it is managed.

    Lower-case names are not set: Windows does not tell case apart.
    """
    variables, scope = egress.variables, egress.windows.environment_scope
    for service in egress.windows.services:
        path = rf"{SERVICES}\{service}"
        yield CreateKey(path)
        if variables and scope in ("Services", "Both"):
            yield SetValue(path, "Environment", multi_sz(f"{name}={value}" for name, value in variables.items()))
    if scope in ("Machine", "Both"):
        for name, value in variables.items():
            yield SetValue(ENVIRONMENT, name, sz(value))


def asks(desired: DesiredState, *, change_expected: bool) -> Queries:
    """The machine's environment where it is set, and the boot from which services have it."""
    machine = desired.registry.key(ENVIRONMENT) is not None
    # where services have an environment of their own as well, no boot is waited for
    alone = machine and not any(key.get("Environment") for key in desired.registry.below(SERVICES))
    return Queries(environment=machine, boot=alone or (machine and change_expected))


def more(entry: Environments, draft: PlanBuilder) -> Queries:
    """The services that have something of ours; which boot this is, where something waits for the next one."""
    machine = bool(entry.machine) or entry.hides
    undone = machine and draft.desired.registry.key(ENVIRONMENT) is None
    touched = any(same(edit.path, ENVIRONMENT) for edit in draft.edits)
    return Queries(services=tuple(entry.services), environment=machine, boot=entry.hides or undone or touched)


def read(registry: Registry) -> Environments:
    """The ledger's entry."""
    services = {
        key.path.rsplit("\\", 1)[1]: ServiceEnvironment(
            before=entries.entry(key, "", _Before).value, variables=entries.entries(registry, key.path, ServiceVariable)
        )
        for key in registry.below(SERVICE_LINES)
        if key.values  # an import that was cut short may have made the key alone
    }
    return Environments(entries.entries(registry, MACHINE_LINES, MachineVariable), services)


def lines(entry: Environments) -> Iterator[SetValue]:
    """A value for each variable; of a service also, as the default value, what was there before."""
    for name, variable in entry.machine.items():
        yield entries.line(MACHINE_LINES, name, variable)
    for service, environment in entry.services.items():
        yield entries.line(rf"{SERVICE_LINES}\{service}", "", _Before(environment.before))
        for name, item in environment.variables.items():
            yield entries.line(rf"{SERVICE_LINES}\{service}", name, item)


def plan(entry: Environments, draft: PlanBuilder) -> Environments:
    """Sets and undoes variables; services whose own environment changes are restarted."""
    machine, hidden = _machine(entry.machine, draft)
    return Environments(machine, _services(entry.services, hidden, draft))


def _machine(
    recorded: dict[str, MachineVariable], draft: PlanBuilder
) -> tuple[dict[str, MachineVariable], dict[str, DesiredItems]]:
    """Sets and undoes the machine's variables; gives what has been booted with and must be hidden from services."""
    wanted, present = draft.desired.registry.key(ENVIRONMENT), draft.actual.registry.key(ENVIRONMENT)
    kept, hidden, boot = dict(recorded), dict[str, DesiredItems](), draft.actual.boot
    for name in VARIABLES:
        wish = wanted.get(name) if wanted else None
        named = present.named(name) if present else None
        entry = recorded.get(name) or _taken(name, named, draft)
        had = entry is not None and entry.is_had(boot)
        if entry is not None and entry.gone is not None:
            back = entry.was.value() if entry.was else None
            # it may have been set to what it replaced: then that is there
            there = is_ours(name, named, entry, draft.digest) and named is not None and named.value != back
            # an import that was cut short has left it in, and the host may have booted since
            had, entry = had or there, entry if there else None
        text = named.value.text() if named and named.value.type == ValueType.SZ else None
        if entry is not None and name not in recorded:
            draft.steps.append(Step("ledger", f"machine: {name}", "add", TAKEN))
        if wish is None and entry is not None and entry.peer and text == _given(draft, name):
            kept[name] = entry
            continue
        merged = merge_machine(name, named, wish.text() if wish else None, entry=entry, digest=draft.digest, boot=boot)
        draft.set_value(ENVIRONMENT, named, NamedValue(merged.name, merged.value) if merged.value else None)
        former = kept.pop(name, None)
        if merged.entry is not None:
            same = merged.entry is entry and entry.gone is None
            booted = merged.entry.booted or had
            kept[name] = merged.entry if same else msgspec.structs.replace(merged.entry, booted=booted, gone=None)
        elif had and former is not None and boot is not None:
            # an import that is cut short leaves it in
            kept[name] = msgspec.structs.replace(former, gone=boot)
        if merged.change is not None:
            _changed(draft, "machine-environment", f"machine: {name}", merged.change)
        if boot is not None and merged.entry is None and had:
            back = merged.value
            hidden[name] = DesiredItems(back.text() if back and back.type == ValueType.SZ else "", boot)
    return kept, hidden


def _taken(name: str, present: NamedValue | None, draft: PlanBuilder) -> MachineVariable | None:
    """A variable that a peer has set, as one of ours that has been booted with: nothing was there before."""
    if draft.taken is None or present is None or present.value.type != ValueType.SZ or not present.value.text():
        return None
    return MachineVariable(draft.digest(name, present.value.text()), peer=True)


def _given(draft: PlanBuilder, name: str) -> str | None:
    """The value that the managed services are given of a variable."""
    for key in draft.desired.registry.below(SERVICES):
        own = key.get("Environment")
        for item in own.texts() if own else ():
            if item.startswith(f"{name}="):
                return item.partition("=")[2]
    return None


def _services(
    recorded: dict[str, ServiceEnvironment], masks: dict[str, DesiredItems], draft: PlanBuilder
) -> dict[str, ServiceEnvironment]:
    managed, kept = draft.desired.registry.children(SERVICES), FoldedDict(recorded)
    for service in each_once((*managed, *recorded)):
        entry = kept.get(service)
        key = draft.actual.registry.key(rf"{SERVICES}\{service}")
        if draft.actual.service(service) is None or key is None:
            kept.pop(service, None)
            continue
        own = draft.desired.registry.value(key.path, "Environment")
        # what is managed hides every variable that must go; what no longer is, those that it hides already
        wishes = masks if own is not None or listed(service, managed) else _still_masked(entry, masks)
        items = own.texts() if own else ()
        wishes = wishes | {name: DesiredItems(value) for name, _, value in (item.partition("=") for item in items)}
        named = key.named("Environment")
        fault = type_fault(service, named.value if named else None)
        if fault is not None and own is not None:
            draft.faults.append(fault)
            continue
        kept.pop(service, None)
        if fault is not None:
            # Windows does not read the value, and nothing is to be put into it
            for name in entry.variables if entry else ():
                _changed(draft, "service-environment", f"{service}: {name}", ItemChange(name, None, LEFT))
            continue
        merged = merge_service(named.value if named else None, entry, wishes, draft.digest)
        draft.set_value(
            key.path, named, NamedValue(named.name if named else "Environment", merged.value) if merged.value else None
        )
        if merged.entry is not None:
            kept[service] = merged.entry
        for change in merged.changes:
            _changed(draft, "service-environment", f"{service}: {change.name}", change)
        # one that was left, since somebody changed it, a service that runs has as it was
        changes = tuple(change for change in merged.changes if change.reason != UNMASKED)
        if changes and not (draft.taken and _has_each(changes, wishes, _machine_values(draft))):
            draft.restarts[service] = "its environment changed"
    return dict(kept)


def _has_each(changes: tuple[ItemChange, ...], wishes: dict[str, DesiredItems], machine: dict[str, str]) -> bool:
    """Whether a service runs with its new items: it has each from the machine's environment, with which the host has booted."""
    return all(change.action == "add" and wishes[change.name].value == machine.get(change.name) for change in changes)


def _machine_values(draft: PlanBuilder) -> dict[str, str]:
    key = draft.actual.registry.key(ENVIRONMENT)
    named = (key.values or {}).values() if key else ()
    return {one.name.upper(): one.value.text() for one in named if one.value.type == ValueType.SZ}


def _changed(draft: PlanBuilder, kind: Kind, target: str, change: ItemChange) -> None:
    if change.action is None:
        draft.steps.append(Step("ledger", target, "remove", change.reason))
    else:
        draft.steps.append(Step(kind, target, change.action, change.reason, change.before, change.after))


def _still_masked(entry: ServiceEnvironment | None, masks: dict[str, DesiredItems]) -> dict[str, DesiredItems]:
    present = entry.variables if entry else {}
    return {name: wish for name, wish in masks.items() if name in present and present[name].mask is not None}
