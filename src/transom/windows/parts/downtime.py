"""The services that are stopped and started: who needs it, who depends on them, and what waits. A part of a host."""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from transom.windows.host import ObservedState, ServiceState, Step, entries
from transom.windows.host.queries import LEDGER, RESTARTS, SERVICES, Queries
from transom.windows.parts.plan_builder import PlanBuilder, When
from transom.windows.parts.restarts import dependants, start_order, stop_order
from transom.windows.registry import Registry
from transom.windows.registry.edits import SetValue
from transom.windows.registry.names import each_once, listed, without
from transom.windows.registry.values import ValueType, sz

DEFERRED = LEDGER + r"\Deferred"
TRUSTING = LEDGER + r"\Trusting"
_WAITS: Final[dict[When, str]] = {
    "boot": "its restart waits for the next boot (spec.windows.restart: OnNextBoot)",
    "manual": "its restart waits for annotation transom.dev/restart on the WindowsInstance (spec.windows.restart: Manual)",
}
_DOWN: Final = (ServiceState.STOPPED, ServiceState.STOP_PENDING)

Note = Literal["running", "check"]
"""Of a service that owes a restart: it was running and has to run; or that is not known."""


class Deferred(msgspec.Struct, frozen=True, omit_defaults=True):
    """A restart that was put off, in which boot: the next one makes it needless."""

    boot: int | None = None


class Downtime(msgspec.Struct, frozen=True):
    """The ledger's entry: services that owe a restart, those whose restart was put off, and those that trust.

    `trusting` are those that were managed when the trusted certificates last changed, or were restarted since.
    """

    restarts: dict[str, Note] = {}
    deferred: dict[str, Deferred] = {}
    trusting: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is owed."""
        return bool(self.restarts or self.deferred)


def more(entry: Downtime, draft: PlanBuilder) -> Queries:
    """The services whose restart was put off, and whether the host has booted since."""
    return Queries(services=tuple(entry.deferred), boot=bool(entry.deferred))


def read(registry: Registry) -> Downtime:
    """The ledger's entry."""
    owed = registry.key(RESTARTS)
    return Downtime(
        {name: _note(registry, name) for name in entries.names(owed)},
        entries.entries(registry, DEFERRED, Deferred),
        tuple(entries.names(registry.key(TRUSTING))),
    )


def lines(entry: Downtime) -> Iterator[SetValue]:
    """A value for each service. Restarts come first: an import that is cut short owes too many, and none too few."""
    for service, note in entry.restarts.items():
        yield SetValue(RESTARTS, service, sz(note))
    for service, deferred in entry.deferred.items():
        yield entries.line(DEFERRED, service, deferred)
    for service in entry.trusting:
        yield SetValue(TRUSTING, service, sz(""))


def plan(entry: Downtime, draft: PlanBuilder) -> Downtime:
    """Which services a change stops and starts, once the draft names those that need it."""
    _restart_newly_managed(entry, draft)
    deferred = _put_off(entry, draft)
    notes, restarted = _restarts(entry, draft)
    draft.stop = _stop(restarted, draft)
    draft.start = _start(draft)
    return Downtime(notes, deferred, draft.trusting)


def _restart_newly_managed(entry: Downtime, draft: PlanBuilder) -> None:
    """A service that was not managed when certificates of ours came may run since before; the ledger knows those that were."""
    # what the first boot put there, it did before any service of ours ran
    for service in without(draft.trusting, entry.trusting) if draft.begun else ():
        draft.restarts.setdefault(service, "it may run since before the trusted certificates came")


def _put_off(entry: Downtime, draft: PlanBuilder) -> dict[str, Deferred]:
    """Restarts that were put off, or are now: they enter the ledger, and do not happen. A boot has made them needless."""
    boot = draft.actual.boot
    for service, deferred in entry.deferred.items():
        if deferred.boot is None or boot is None or deferred.boot == boot:
            draft.restarts.setdefault(service, "a restart that was put off")
    waiting = {}
    for service in draft.restarts if draft.when != "now" else ():
        present = draft.actual.service(service)
        if present is not None and present.state not in _DOWN:
            waiting[service] = Deferred(boot)
            draft.warnings.append(f"{service}: {_WAITS[draft.when]}")
    for service in waiting:
        del draft.restarts[service]
    return waiting


def _restarts(entry: Downtime, draft: PlanBuilder) -> tuple[dict[str, Note], tuple[str, ...]]:
    """A note and a step for each service to stop, until it runs again; and these services, in order."""
    notes: dict[str, Note] = {}
    reasons = dict.fromkeys(entry.restarts, "a restart that was owed from an earlier change")
    for service, note in entry.restarts.items():
        if draft.actual.service(service) is not None or _may_exist(service, draft.actual):
            notes[service] = note
    for service, reason in draft.restarts.items():
        present = draft.actual.service(service)
        if present is not None and present.state not in _DOWN:
            notes[service], reasons[service] = "running", reason
    known = _dependencies(draft.actual)
    for service in dependants(notes, known):
        present = draft.actual.service(service)
        if present is None or present.state not in _DOWN:
            notes.setdefault(service, "running" if present else "check")
            reasons.setdefault(service, "depends on a service that is restarted")
    stop = stop_order(notes, known)
    draft.steps.extend(Step("service", service, "restart", reasons[service]) for service in stop)
    return notes, stop


def _may_exist(service: str, actual: ObservedState) -> bool:
    return actual.dependencies is None or listed(service, actual.dependencies)


def _stop(restarted: tuple[str, ...], draft: PlanBuilder) -> tuple[str, ...]:
    """What is restarted, and what is removed and runs: nobody owes that a start."""
    services = [draft.found.service(name) for name in draft.removed]
    going = tuple(s.name for s in services if s is not None and s.state != ServiceState.STOPPED)
    if not going:
        return restarted
    stranded = without(_stranded(draft), restarted)
    draft.warnings += [f"{name} depends on a service that is removed: it is stopped, and cannot start" for name in stranded]
    return stop_order((*restarted, *going, *stranded), _dependencies(draft.found) | _dependencies(draft.actual))


def _start(draft: PlanBuilder) -> tuple[str, ...]:
    """What was stopped and stays, and what has to run; in the order that dependencies and the payload ask for."""
    again = without(reversed(draft.stop), (*draft.removed, *_stranded(draft)))
    return start_order(each_once((*draft.needed, *again)), _dependencies(draft.actual)) if draft.needed else again


def _stranded(draft: PlanBuilder) -> tuple[str, ...]:
    """Services of others that depend on one that is removed, as far as they are not known to be stopped."""
    services = {name: draft.found.service(name) for name in dependants(draft.removed, _dependencies(draft.found))}
    return tuple(name for name, present in services.items() if present is None or present.state != ServiceState.STOPPED)


def _note(registry: Registry, service: str) -> Note:
    value = registry.value(RESTARTS, service)
    return "running" if value is not None and value.text() == "running" else "check"


def _dependencies(state: ObservedState) -> dict[str, tuple[str, ...]]:
    """Who needs whom: of every service where that was read, else of those that were asked for."""
    if state.dependencies is not None:
        return dict(state.dependencies)
    found = {}
    for service in state.services:
        value = state.registry.value(rf"{SERVICES}\{service.name}", "DependOnService")
        found[service.name] = value.texts() if value and value.type == ValueType.MULTI_SZ else ()
    return found
