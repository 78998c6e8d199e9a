"""The environments of a plan: the machine's, and those that services have of their own."""

from transom.windows.draft import Draft
from transom.windows.environment import NAMES, UNMASKED, Change, Wish, merge_machine, merge_service
from transom.windows.gathering import ENVIRONMENT, SERVICES
from transom.windows.ledger import ServiceEnvironment
from transom.windows.names import each_once, listed
from transom.windows.registry import NamedValue, ValueType
from transom.windows.steps import Kind, Step
from transom.windows.taken import TAKEN, is_known_already, variable


def plan_environments(draft: Draft) -> None:
    """Sets and undoes variables; services whose own environment changes are restarted."""
    _services(draft, _machine(draft))


def _machine(draft: Draft) -> dict[str, Wish]:
    """Sets and undoes the machine's variables; gives what has been booted with and must be hidden from services."""
    wanted, held = draft.desired.registry.key(ENVIRONMENT), draft.actual.registry.key(ENVIRONMENT)
    hidden: dict[str, Wish] = {}
    for name in NAMES:
        wish = wanted.get(name) if wanted else None
        named = (held.values or {}).get(name.casefold()) if held else None
        entry = draft.old.machine.get(name) or (variable(name, named, draft.ledger) if draft.taken else None)
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
        if merged.entry is None:
            draft.ledger.machine.pop(name, None)
        else:
            draft.ledger.machine[name] = merged.entry
        if merged.change is not None:
            _changed(draft, "machine-environment", f"machine: {name}", merged.change)
        booted_with = entry is not None and entry.boot != draft.actual.boot
        if draft.actual.boot is not None and merged.entry is None and (booted_with or _masked(draft, name)):
            back = merged.value
            hidden[name] = Wish(back.text() if back and back.type == ValueType.SZ else "", draft.actual.boot)
    return hidden


def _given(draft: Draft, name: str) -> str | None:
    """The value that the managed services are given of a variable."""
    for key in draft.desired.registry.below(SERVICES):
        own = key.get("Environment")
        for item in own.texts() if own else ():
            if item.startswith(f"{name}="):
                return item.partition("=")[2]
    return None


def _masked(draft: Draft, name: str) -> bool:
    """Whether a service hides the machine's variable since this very boot."""
    entries = (environment.variables.get(name) for environment in draft.old.services.values())
    return any(entry is not None and entry.mask is not None and entry.mask == draft.actual.boot for entry in entries)


def _services(draft: Draft, masks: dict[str, Wish]) -> None:
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
        wishes = wishes | {name: Wish(value) for name, _, value in (item.partition("=") for item in items)}
        named = (key.values or {}).get("environment")
        merged = merge_service(service, named.value if named else None, entry, wishes, draft.ledger)
        draft.set_value(
            key.path, named, NamedValue(named.name if named else "Environment", merged.value) if merged.value else None
        )
        _drop(draft, service, entry)
        if merged.entry is not None:
            draft.ledger.services[service] = merged.entry
        for change in merged.changes:
            _changed(draft, "service-environment", f"{service}: {change.name}", change)
        changes = tuple(change for change in merged.changes if change.action and change.reason != UNMASKED)
        given = {name: wish.value for name, wish in wishes.items()}
        if changes and not (draft.taken and is_known_already(changes, given, _machine_values(draft))):
            draft.restarts[service] = "its environment changed"


def _machine_values(draft: Draft) -> dict[str, str]:
    key = draft.actual.registry.key(ENVIRONMENT)
    named = (key.values or {}).values() if key else ()
    return {one.name.upper(): one.value.text() for one in named if one.value.type == ValueType.SZ}


def _drop(draft: Draft, service: str, entry: ServiceEnvironment | None) -> None:
    if entry is not None:
        draft.ledger.services.pop(next(n for n, e in draft.ledger.services.items() if n.casefold() == service.casefold()))


def _changed(draft: Draft, kind: Kind, target: str, change: Change) -> None:
    if change.action is None:
        draft.steps.append(Step("ledger", target, "remove", change.reason))
    else:
        draft.steps.append(Step(kind, target, change.action, change.reason))


def _still_masked(entry: ServiceEnvironment | None, masks: dict[str, Wish]) -> dict[str, Wish]:
    held = entry.variables if entry else {}
    return {name: wish for name, wish in masks.items() if name in held and held[name].mask is not None}
