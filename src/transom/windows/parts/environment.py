"""The environments of a host: the machine's, and those that services have of their own. A part of a host."""

from collections.abc import Iterator

import msgspec

from transom.proxy.settings import VARIABLES, Egress
from transom.windows.host import ledger_entries
from transom.windows.host.host_state import DesiredState, Kind, Step
from transom.windows.host.ledger_entries import FormerValue
from transom.windows.host.queries import ENVIRONMENT, LEDGER, SERVICES, Queries
from transom.windows.parts.adopted import TAKEN
from transom.windows.parts.environment_items import (
    LEFT,
    MASKED,
    UNMASKED,
    DesiredItems,
    ItemChange,
    MachineVariable,
    ServiceEnvironment,
    ServiceVariable,
    find_type_fault,
    is_ours,
    merge_machine_variable,
    merge_service_environment,
)
from transom.windows.parts.part import About, Assumption
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry.edits import CreateKey, Edit, SetValue
from transom.windows.registry.names import FoldedDict, is_listed, is_same, remove_duplicates
from transom.windows.registry.registry import NamedValue, Registry
from transom.windows.registry.values import ValueType, build_multi_sz, build_sz

MACHINE_LINES = LEDGER + r"\Environment\Machine"
SERVICE_LINES = LEDGER + r"\Environment\Services"
ABOUT = About(
    r"`HKLM\SYSTEM\CurrentControlSet\Services\<name>`, value `Environment`",
    "proxy variables of a service, **with the password**",
    "**every local user of that machine**: Windows lets Users read the key, and the service must read it. With "
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
        """Return True if Transom owns any variable."""
        return bool(self.machine or self.services)

    @property
    def is_hiding_variables(self) -> bool:
        """Whether an item of Transom's only hides a variable of the machine until the next reboot."""
        masks = any(variable.mask is not None for service in self.services.values() for variable in service.variables.values())
        return masks or any(item.gone is not None for item in self.machine.values())


class _FormerEnvironment(msgspec.Struct, frozen=True):
    value: FormerValue | None = None


def iter_desired_edits(egress: Egress) -> Iterator[Edit]:
    """Yield a key for every service in the settings, even without an environment of its own, to mark it as managed.

    Lower-case names are not set: Windows ignores case.
    """
    variables, scope = egress.variables, egress.windows.environment_scope
    for service in egress.windows.services:
        path = rf"{SERVICES}\{service}"
        yield CreateKey(path)
        if variables and scope in ("Services", "Both"):
            yield SetValue(path, "Environment", build_multi_sz(f"{name}={value}" for name, value in variables.items()))
    if scope in ("Machine", "Both"):
        for name, value in variables.items():
            yield SetValue(ENVIRONMENT, name, build_sz(value))


def build_initial_queries(desired: DesiredState, *, change_expected: bool) -> Queries:
    """Query the machine environment if it is set, and the boot from which services have it."""
    machine = desired.registry.find_key(ENVIRONMENT) is not None
    # where services have an environment of their own as well, no boot is waited for
    alone = machine and not any(key.get("Environment") for key in desired.registry.list_keys_below(SERVICES))
    return Queries(environment=machine, boot=alone or (machine and change_expected))


def build_follow_up_queries(entry: Environments, draft: PlanBuilder) -> Queries:
    """Query the services with owned variables, and the boot number if a change waits for the next reboot."""
    machine = bool(entry.machine) or entry.is_hiding_variables
    undone = machine and draft.desired.registry.find_key(ENVIRONMENT) is None
    touched = any(is_same(edit.path, ENVIRONMENT) for edit in draft.edits)
    return Queries(services=tuple(entry.services), environment=machine, boot=entry.is_hiding_variables or undone or touched)


def read(registry: Registry) -> Environments:
    """Read the ledger's entry."""
    services = {
        key.path.rsplit("\\", 1)[1]: ServiceEnvironment(
            before=ledger_entries.read_entry(key, "", _FormerEnvironment).value,
            variables=ledger_entries.read_entries(registry, key.path, ServiceVariable),
        )
        for key in registry.list_keys_below(SERVICE_LINES)
        if key.values  # an import that was cut short may have made the key alone
    }
    return Environments(ledger_entries.read_entries(registry, MACHINE_LINES, MachineVariable), services)


def iter_ledger_values(entry: Environments) -> Iterator[SetValue]:
    """Yield a value for each variable; for a service also its former environment, as the default value."""
    for name, variable in entry.machine.items():
        yield ledger_entries.build_ledger_value(MACHINE_LINES, name, variable)
    for service, environment in entry.services.items():
        yield ledger_entries.build_ledger_value(rf"{SERVICE_LINES}\{service}", "", _FormerEnvironment(environment.before))
        for name, item in environment.variables.items():
            yield ledger_entries.build_ledger_value(rf"{SERVICE_LINES}\{service}", name, item)


def plan(entry: Environments, draft: PlanBuilder) -> Environments:
    """Set and undo variables; restart services whose own environment changes."""
    machine, hidden = _plan_machine(entry.machine, draft)
    return Environments(machine, _plan_services(entry.services, hidden, draft))


def _plan_machine(
    recorded: dict[str, MachineVariable], draft: PlanBuilder
) -> tuple[dict[str, MachineVariable], dict[str, DesiredItems]]:
    """Plan the machine's variables; return their ledger entries and the variables to hide from services."""
    wanted, present = draft.desired.registry.find_key(ENVIRONMENT), draft.actual.registry.find_key(ENVIRONMENT)
    kept, hidden, boot = dict(recorded), dict[str, DesiredItems](), draft.actual.boot
    for name in VARIABLES:
        wish = wanted.get(name) if wanted else None
        named = present.get_named_value(name) if present else None
        entry = recorded.get(name) or _adopt_peer_variable(name, named, draft)
        had = entry is not None and entry.is_inherited(boot)
        if entry is not None and entry.gone is not None:
            back = entry.was.to_value() if entry.was else None
            # it may have been set to what it replaced: then that is there
            is_present = is_ours(name, named, entry, draft.compute_digest) and named is not None and named.value != back
            # an import that was cut short has left it in, and the host may have booted since
            had, entry = had or is_present, entry if is_present else None
        text = named.value.decode_text() if named and named.value.type == ValueType.SZ else None
        if entry is not None and name not in recorded:
            draft.steps.append(Step("ledger", f"machine: {name}", "add", TAKEN))
        if wish is None and entry is not None and entry.peer and text == _find_service_value(draft, name):
            kept[name] = entry
            continue
        merged = merge_machine_variable(
            name, named, wish.decode_text() if wish else None, entry=entry, digest=draft.compute_digest, boot=boot
        )
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
            _record_change(draft, "machine-environment", f"machine: {name}", merged.change)
        if boot is not None and merged.entry is None and had:
            back = merged.value
            hidden[name] = DesiredItems(back.decode_text() if back and back.type == ValueType.SZ else "", boot)
    return kept, hidden


def _adopt_peer_variable(name: str, present: NamedValue | None, draft: PlanBuilder) -> MachineVariable | None:
    """Adopt a variable that a peer set, as present since the last reboot and without a former value; or None."""
    if draft.taken is None or present is None or present.value.type != ValueType.SZ or not present.value.decode_text():
        return None
    return MachineVariable(draft.compute_digest(name, present.value.decode_text()), peer=True)


def _find_service_value(draft: PlanBuilder, name: str) -> str | None:
    """Return the value of a variable that the managed services get, or None."""
    for key in draft.desired.registry.list_keys_below(SERVICES):
        own = key.get("Environment")
        for item in own.to_texts() if own else ():
            if item.startswith(f"{name}="):
                return item.partition("=")[2]
    return None


def _plan_services(
    recorded: dict[str, ServiceEnvironment], masks: dict[str, DesiredItems], draft: PlanBuilder
) -> dict[str, ServiceEnvironment]:
    managed, kept = draft.desired.registry.list_children(SERVICES), FoldedDict(recorded)
    for service in remove_duplicates((*managed, *recorded)):
        entry = kept.get(service)
        key = draft.actual.registry.find_key(rf"{SERVICES}\{service}")
        if draft.actual.find_service(service) is None or key is None:
            kept.pop(service, None)
            continue
        own = draft.desired.registry.find_value(key.path, "Environment")
        # what is managed hides every variable that must go; what no longer is, those that it hides already
        wishes = masks if own is not None or is_listed(service, managed) else _select_masked_items(entry, masks)
        items = own.to_texts() if own else ()
        wishes = wishes | {name: DesiredItems(value) for name, _, value in (item.partition("=") for item in items)}
        named = key.get_named_value("Environment")
        fault = find_type_fault(service, named.value if named else None)
        if fault is not None and own is not None:
            draft.faults.append(fault)
            continue
        kept.pop(service, None)
        if fault is not None:
            # Windows does not read the value, so nothing is written to it
            for name in entry.variables if entry else ():
                _record_change(draft, "service-environment", f"{service}: {name}", ItemChange(name, None, LEFT))
            continue
        merged = merge_service_environment(named.value if named else None, entry, wishes, draft.compute_digest)
        draft.set_value(
            key.path, named, NamedValue(named.name if named else "Environment", merged.value) if merged.value else None
        )
        if merged.entry is not None:
            kept[service] = merged.entry
        for change in merged.changes:
            _record_change(draft, "service-environment", f"{service}: {change.name}", change)
        # a variable left because a user changed it: a running service still has the former value
        changes = tuple(change for change in merged.changes if change.reason != UNMASKED)
        if changes and not (draft.taken and _has_inherited_changes(changes, wishes, _read_machine_values(draft))):
            draft.restarts[service] = _format_restart_reason(changes)
    return dict(kept)


def _format_restart_reason(changes: tuple[ItemChange, ...]) -> str:
    """Return why a service is restarted; an empty variable that hides a machine variable is not a user's setting."""
    hidden = [change.name for change in changes if change.reason == MASKED]
    if not hidden:
        return "its environment changed"
    other = "" if len(hidden) == len(changes) else "its environment changed, and "
    return (
        f"{other}it inherits {', '.join(hidden)} from the machine environment as of the last boot: "
        "an empty variable hides the value until the next reboot"
    )


def _has_inherited_changes(changes: tuple[ItemChange, ...], wishes: dict[str, DesiredItems], machine: dict[str, str]) -> bool:
    """Return True if a running service already has its new items from the machine's environment at the last reboot."""
    return all(change.action == "add" and wishes[change.name].value == machine.get(change.name) for change in changes)


def _read_machine_values(draft: PlanBuilder) -> dict[str, str]:
    key = draft.actual.registry.find_key(ENVIRONMENT)
    named = (key.values or {}).values() if key else ()
    return {item.name.upper(): item.value.decode_text() for item in named if item.value.type == ValueType.SZ}


def _record_change(draft: PlanBuilder, kind: Kind, target: str, change: ItemChange) -> None:
    if change.action is None:
        draft.steps.append(Step("ledger", target, "remove", change.reason))
    else:
        draft.steps.append(Step(kind, target, change.action, change.reason, change.before, change.after))


def _select_masked_items(entry: ServiceEnvironment | None, masks: dict[str, DesiredItems]) -> dict[str, DesiredItems]:
    present = entry.variables if entry else {}
    return {name: wish for name, wish in masks.items() if name in present and present[name].mask is not None}
