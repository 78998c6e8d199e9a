"""The services that are stopped and started: who needs it, who depends on them, and what waits. A part of a host."""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from transom.windows.host import ledger_entries
from transom.windows.host.host_state import ObservedState, ServiceState, Step
from transom.windows.host.queries import LEDGER, RESTARTS, SERVICES, Queries
from transom.windows.parts.plan_builder import PlanBuilder, When
from transom.windows.parts.restarts import Dependencies, list_dependants, sort_for_start, sort_for_stop
from transom.windows.registry.edits import SetValue
from transom.windows.registry.names import is_listed, remove_duplicates, without_names
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import ValueType, build_sz

DEFERRED = LEDGER + r"\Deferred"
TRUSTING = LEDGER + r"\Trusting"
_WAITS: Final[dict[When, str]] = {
    "boot": "its restart waits for the next reboot (spec.windows.restart: OnNextBoot)",
    "manual": "its restart waits for `transom restart`, or annotation transom.dev/restart (spec.windows.restart: Manual)",
}
_DEPENDS: Final = "depends on a service that is restarted"
_DOWN: Final = (ServiceState.STOPPED, ServiceState.STOP_PENDING)

_DISABLED: Final = 4
"""SERVICE_DISABLED, the value `Start` of a service that Windows does not start (winnt.h; Microsoft: "CreateServiceW")."""

Note = Literal["running", "check", "started"]
"""Of a service that owes a restart: it ran and must run; that is not known; or an earlier pass restarted it, and it starts."""


class DeferredRestart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A restart that was put off, in which boot: the next one makes it needless."""

    boot: int | None = None


class Downtime(msgspec.Struct, frozen=True):
    """The ledger's entry: services that owe a restart, those whose restart was put off, and those that trust.

    `trusting` are those that were managed when the trusted certificates last changed, or were restarted since.
    """

    restarts: dict[str, Note] = {}
    deferred: dict[str, DeferredRestart] = {}
    trusting: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return True if any restart or start is owed."""
        return bool(self.restarts or self.deferred)


def build_follow_up_queries(entry: Downtime, draft: PlanBuilder) -> Queries:
    """Query the services whose restart was deferred, and whether the host has rebooted since."""
    starting = (service for service, note in entry.restarts.items() if note == "started")
    return Queries(services=(*entry.deferred, *starting), boot=bool(entry.deferred))


def read(registry: Registry) -> Downtime:
    """Read the ledger's entry."""
    owed = registry.find_key(RESTARTS)
    return Downtime(
        {name: _read_restart_note(registry, name) for name in ledger_entries.iter_value_names(owed)},
        ledger_entries.read_entries(registry, DEFERRED, DeferredRestart),
        tuple(ledger_entries.iter_value_names(registry.find_key(TRUSTING))),
    )


def iter_ledger_values(entry: Downtime) -> Iterator[SetValue]:
    """Yield a value for each service; restarts first, so an interrupted import owes too many, not too few."""
    for service, note in entry.restarts.items():
        yield SetValue(RESTARTS, service, build_sz(note))
    for service, deferred in entry.deferred.items():
        yield ledger_entries.build_ledger_value(DEFERRED, service, deferred)
    for service in entry.trusting:
        yield SetValue(TRUSTING, service, build_sz(""))


def plan(entry: Downtime, draft: PlanBuilder) -> Downtime:
    """Plan which services a change stops and starts, once the draft names those that need it."""
    _restart_newly_managed(entry, draft)
    deferred = _defer_restarts(entry, draft)
    notes, restarted = _plan_restarts(entry, draft)
    draft.stop = _list_services_to_stop(restarted, draft)
    draft.start = _list_services_to_start(draft)
    return Downtime(notes, deferred, draft.trusting)


def _restart_newly_managed(entry: Downtime, draft: PlanBuilder) -> None:
    """Restart services that were not managed when our certificates arrived; the ledger lists those that were."""
    # what the first boot put there, it did before any service of ours ran
    for service in without_names(draft.trusting, entry.trusting) if draft.was_changed_before else ():
        draft.restarts.setdefault(service, "it may run since before the trusted certificates came")


def _defer_restarts(entry: Downtime, draft: PlanBuilder) -> dict[str, DeferredRestart]:
    """Restart that were put off, or are now: they enter the ledger, and do not happen. A boot has made them needless."""
    boot = draft.actual.boot
    for service, deferred in entry.deferred.items():
        if deferred.boot is None or boot is None or deferred.boot == boot:
            draft.restarts.setdefault(service, "a restart that was put off")
    waiting = {}
    for service in draft.restarts if draft.when != "now" else ():
        present = draft.actual.find_service(service)
        if present is not None and present.state not in _DOWN:
            waiting[service] = DeferredRestart(boot)
            draft.warnings.append(f"{service}: {_WAITS[draft.when]}")
    for service in waiting:
        del draft.restarts[service]
    return waiting


def _plan_restarts(entry: Downtime, draft: PlanBuilder) -> tuple[dict[str, Note], tuple[str, ...]]:
    """Plan a note and a step for each service to stop, until it runs again; return notes and services in order."""
    notes: dict[str, Note] = {}
    reasons = dict.fromkeys(entry.restarts, "a restart that was owed from an earlier change")
    for service, note in entry.restarts.items():
        if note != "started" and (draft.actual.find_service(service) is not None or _can_exist(service, draft.actual)):
            notes[service] = note
    for service, reason in draft.restarts.items():
        present = draft.actual.find_service(service)
        if present is not None and present.state not in _DOWN:
            notes[service], reasons[service] = "running", reason
    known = _map_dependencies(draft.actual)
    disabled = [name for name in notes if _is_disabled(name, draft.actual)]
    for service in list_dependants(without_names(notes, disabled), known):
        present = draft.actual.find_service(service)
        if present is None or present.state not in _DOWN:
            notes.setdefault(service, "running" if present else "check")
            reasons.setdefault(service, _DEPENDS)
    owed = _list_blocked(notes, known, draft)
    for service in owed:
        if service not in reasons or reasons[service] == _DEPENDS:
            del notes[service]
    stop = sort_for_stop(without_names(notes, owed), known)
    # they come back in this order, which is what people ask for
    draft.steps.extend(Step("service", service, "restart", reasons[service]) for service in reversed(stop))
    return notes | _list_pending_starts(entry, notes, draft), stop


def _list_blocked(notes: dict[str, Note], known: Dependencies, draft: PlanBuilder) -> tuple[str, ...]:
    """Return the services that are not stopped: the disabled ones that run, and those that these depend on.

    A disabled service that does not run owes nothing: a person stopped it, and its note goes.
    """
    disabled = [name for name in notes if _is_disabled(name, draft.actual) and not is_listed(name, draft.removed)]
    for name in disabled:
        if (present := draft.actual.find_service(name)) is not None and present.state in _DOWN:
            del notes[name]
    running = tuple(name for name in disabled if name in notes)
    draft.disabled += running
    needed = [name for name in notes if not is_listed(name, running) and _is_needed_by(name, running, known)]
    return (*running, *needed)


def _is_needed_by(name: str, others: tuple[str, ...], known: Dependencies) -> bool:
    return any(is_listed(dependant, others) for dependant in list_dependants([name], known))


def _is_disabled(name: str, actual: ObservedState) -> bool:
    start = actual.registry.find_value(rf"{SERVICES}\{name}", "Start")
    return start is not None and start.type == ValueType.DWORD and start.to_number() == _DISABLED


def _list_pending_starts(entry: Downtime, notes: dict[str, Note], draft: PlanBuilder) -> dict[str, Note]:
    """Return the notes of services that an earlier pass started, and that do not run yet: this one waits, and stops none."""
    kept: dict[str, Note] = {}
    for service, note in entry.restarts.items():
        present = draft.actual.find_service(service)
        if note != "started" or is_listed(service, tuple(notes)) or is_listed(service, draft.removed) or present is None:
            continue
        if present.state != ServiceState.RUNNING and not _is_disabled(service, draft.actual):
            kept[service] = note
            if not is_listed(service, draft.needed):
                draft.needed += (service,)
                draft.steps.append(Step("service", service, "restart", "an earlier pass started it, and it does not run yet"))
    return kept


def _can_exist(service: str, actual: ObservedState) -> bool:
    return actual.dependencies is None or is_listed(service, actual.dependencies)


def _list_services_to_stop(restarted: tuple[str, ...], draft: PlanBuilder) -> tuple[str, ...]:
    """List the services to stop: those to restart, and running ones to remove, which are not started again."""
    services = [draft.observed.find_service(name) for name in draft.removed]
    going = tuple(s.name for s in services if s is not None and s.state != ServiceState.STOPPED)
    if not going:
        return restarted
    stranded = without_names(_list_stranded_dependants(draft), restarted)
    draft.warnings += [f"{name} depends on a service that is removed: it is stopped, and cannot start" for name in stranded]
    return sort_for_stop((*restarted, *going, *stranded), _map_dependencies(draft.observed) | _map_dependencies(draft.actual))


def _list_services_to_start(draft: PlanBuilder) -> tuple[str, ...]:
    """List the services to start: stopped ones that stay and those that must run, in dependency and payload order."""
    again = without_names(reversed(draft.stop), (*draft.removed, *_list_stranded_dependants(draft)))
    return (
        sort_for_start(remove_duplicates((*draft.needed, *again)), _map_dependencies(draft.actual)) if draft.needed else again
    )


def _list_stranded_dependants(draft: PlanBuilder) -> tuple[str, ...]:
    """List foreign services that depend on a removed one, unless they are known to be stopped."""
    services = {
        name: draft.observed.find_service(name) for name in list_dependants(draft.removed, _map_dependencies(draft.observed))
    }
    return tuple(name for name, present in services.items() if present is None or present.state != ServiceState.STOPPED)


def _read_restart_note(registry: Registry, service: str) -> Note:
    value = registry.find_value(RESTARTS, service)
    text = value.decode_text() if value is not None else ""
    # a word of a newer version is as good as none
    return "running" if text == "running" else "started" if text == "started" else "check"


def _map_dependencies(state: ObservedState) -> dict[str, tuple[str, ...]]:
    """Map services to their dependencies: all services if they were read, otherwise the queried ones."""
    if state.dependencies is not None:
        return dict(state.dependencies)
    result = {}
    for service in state.services:
        value = state.registry.find_value(rf"{SERVICES}\{service.name}", "DependOnService")
        result[service.name] = value.to_texts() if value and value.type == ValueType.MULTI_SZ else ()
    return result
