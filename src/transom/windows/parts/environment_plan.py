"""The environments of a plan: the machine's, and those that services have of their own."""

import msgspec

from transom.windows.host.queries import ENVIRONMENT, SERVICES
from transom.windows.host.steps import Kind, Step
from transom.windows.ledger.ledger import ServiceEnvironment
from transom.windows.parts.adopted import TAKEN, is_known_already, variable
from transom.windows.parts.environment import (
    LEFT,
    NAMES,
    UNMASKED,
    DesiredItems,
    ItemChange,
    is_ours,
    merge_machine,
    merge_service,
    type_fault,
)
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.registry.names import each_once, listed
from transom.windows.registry.registry import NamedValue, ValueType


def plan_environments(draft: PlanBuilder) -> None:
    """Sets and undoes variables; services whose own environment changes are restarted."""
    _services(draft, _machine(draft))


def _machine(draft: PlanBuilder) -> dict[str, DesiredItems]:
    """Sets and undoes the machine's variables; gives what has been booted with and must be hidden from services."""
    wanted, present = draft.desired.registry.key(ENVIRONMENT), draft.actual.registry.key(ENVIRONMENT)
    hidden: dict[str, DesiredItems] = {}
    for name in NAMES:
        wish = wanted.get(name) if wanted else None
        named = (present.values or {}).get(name.casefold()) if present else None
        entry = draft.old.machine.get(name) or (variable(name, named, draft.ledger) if draft.taken else None)
        had = entry is not None and entry.is_had(draft.actual.boot)
        if entry is not None and entry.gone is not None:
            back = entry.was.value() if entry.was else None
            # it may have been set to what it replaced: then that is there
            there = is_ours(name, named, entry, draft.ledger) and named is not None and named.value != back
            # an import that was cut short has left it in, and the host may have booted since
            had, entry = had or there, entry if there else None
        text = named.value.text() if named and named.value.type == ValueType.SZ else None
        if entry is not None and name not in draft.old.machine:
            draft.steps.append(Step("ledger", f"machine: {name}", "add", TAKEN))
        if wish is None and entry is not None and entry.peer and text == _given(draft, name):
            draft.ledger.machine[name] = entry
            continue
        merged = merge_machine(
            name, named, wish.text() if wish else None, entry=entry, ledger=draft.ledger, boot=draft.actual.boot
        )
        draft.set_value(ENVIRONMENT, named, NamedValue(merged.name, merged.value) if merged.value else None)
        recorded = draft.ledger.machine.pop(name, None)
        if merged.entry is not None:
            same = merged.entry is entry and entry.gone is None
            kept = merged.entry if same else msgspec.structs.replace(merged.entry, booted=merged.entry.booted or had, gone=None)
            draft.ledger.machine[name] = kept
        elif had and recorded is not None and draft.actual.boot is not None:
            # an import that is cut short leaves it in
            draft.ledger.machine[name] = msgspec.structs.replace(recorded, gone=draft.actual.boot)
        if merged.change is not None:
            _changed(draft, "machine-environment", f"machine: {name}", merged.change)
        if draft.actual.boot is not None and merged.entry is None and had:
            back = merged.value
            hidden[name] = DesiredItems(back.text() if back and back.type == ValueType.SZ else "", draft.actual.boot)
    return hidden


def _given(draft: PlanBuilder, name: str) -> str | None:
    """The value that the managed services are given of a variable."""
    for key in draft.desired.registry.below(SERVICES):
        own = key.get("Environment")
        for item in own.texts() if own else ():
            if item.startswith(f"{name}="):
                return item.partition("=")[2]
    return None


def _services(draft: PlanBuilder, masks: dict[str, DesiredItems]) -> None:
    managed = draft.desired.registry.children(SERVICES)
    for service in each_once((*managed, *draft.old.services)):
        entry = next((e for name, e in draft.old.services.items() if name.casefold() == service.casefold()), None)
        key = draft.actual.registry.key(rf"{SERVICES}\{service}")
        if draft.actual.service(service) is None or key is None:
            _drop(draft, service, entry)
            continue
        own = draft.desired.registry.value(key.path, "Environment")
        # what is managed hides every variable that must go; what no longer is, those that it hides already
        wishes = masks if own is not None or listed(service, managed) else _still_masked(entry, masks)
        items = own.texts() if own else ()
        wishes = wishes | {name: DesiredItems(value) for name, _, value in (item.partition("=") for item in items)}
        named = (key.values or {}).get("environment")
        fault = type_fault(service, named.value if named else None)
        if fault is not None:
            _leave(draft, service, entry, fault if own is not None else None)
            continue
        merged = merge_service(named.value if named else None, entry, wishes, draft.ledger)
        draft.set_value(
            key.path, named, NamedValue(named.name if named else "Environment", merged.value) if merged.value else None
        )
        _drop(draft, service, entry)
        if merged.entry is not None:
            draft.ledger.services[service] = merged.entry
        for change in merged.changes:
            _changed(draft, "service-environment", f"{service}: {change.name}", change)
        # one that was left, since somebody changed it, a service that runs has as it was
        changes = tuple(change for change in merged.changes if change.reason != UNMASKED)
        given = {name: wish.value for name, wish in wishes.items()}
        if changes and not (draft.taken and is_known_already(changes, given, _machine_values(draft))):
            draft.restarts[service] = "its environment changed"


def _leave(draft: PlanBuilder, service: str, entry: ServiceEnvironment | None, fault: str | None) -> None:
    """Leaves a value that Windows does not read; it matters only where something is to be put into it."""
    if fault is not None:
        draft.faults.append(fault)
    elif entry is not None:
        _drop(draft, service, entry)
        for name in entry.variables:
            _changed(draft, "service-environment", f"{service}: {name}", ItemChange(name, None, LEFT))


def _machine_values(draft: PlanBuilder) -> dict[str, str]:
    key = draft.actual.registry.key(ENVIRONMENT)
    named = (key.values or {}).values() if key else ()
    return {one.name.upper(): one.value.text() for one in named if one.value.type == ValueType.SZ}


def _drop(draft: PlanBuilder, service: str, entry: ServiceEnvironment | None) -> None:
    if entry is not None:
        draft.ledger.services.pop(next(n for n, e in draft.ledger.services.items() if n.casefold() == service.casefold()))


def _changed(draft: PlanBuilder, kind: Kind, target: str, change: ItemChange) -> None:
    if change.action is None:
        draft.steps.append(Step("ledger", target, "remove", change.reason))
    else:
        draft.steps.append(Step(kind, target, change.action, change.reason, change.before, change.after))


def _still_masked(entry: ServiceEnvironment | None, masks: dict[str, DesiredItems]) -> dict[str, DesiredItems]:
    present = entry.variables if entry else {}
    return {name: wish for name, wish in masks.items() if name in present and present[name].mask is not None}
