"""The services of a plan that are stopped and started: those that changes ask for, who depends on them, and what waits."""

from typing import Final, Literal

import msgspec

from transom.windows.host.queries import SERVICES
from transom.windows.host.state import ObservedState, ServiceState
from transom.windows.host.steps import Step
from transom.windows.ledger.ledger import Deferred, Note
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.parts.restarts import dependants, start_order, stop_order
from transom.windows.registry.names import each_once, listed, without
from transom.windows.registry.registry import ValueType

When = Literal["now", "boot", "held"]
"""When services are restarted: now, by the next boot, or once somebody says so."""
_WAITS: Final[dict[When, str]] = {
    "boot": "its restart waits for the next boot (spec.windows.restart: OnNextBoot)",
    "held": "its restart waits for annotation transom.dev/restart on the WindowsInstance (spec.windows.restart: Manual)",
}
_DOWN: Final = (ServiceState.STOPPED, ServiceState.STOP_PENDING)


class Downtime:
    """Which services a change stops and starts, once the draft names those that need it."""

    def __init__(self, draft: PlanBuilder, when: When) -> None:
        self._draft = draft
        self._put_off(when)
        self.notes: dict[str, Note] = {}
        """What the ledger says of them until they run again."""
        self._restarted = self._restarts()

    def _put_off(self, when: When) -> None:
        """Restarts that were put off, or are now: they enter the ledger, and do not happen. A boot has made them needless."""
        draft, boot = self._draft, self._draft.actual.boot
        for service, deferred in draft.old.deferred.items():
            if deferred.boot is None or boot is None or deferred.boot == boot:
                draft.restarts.setdefault(service, "a restart that was put off")
        waiting = {}
        for service in draft.restarts if when != "now" else ():
            present = draft.actual.service(service)
            if present is not None and present.state not in _DOWN:
                waiting[service] = Deferred(boot)
                draft.warnings.append(f"{service}: {_WAITS[when]}")
        for service in waiting:
            del draft.restarts[service]
        draft.ledger = msgspec.structs.replace(draft.ledger, deferred=waiting)

    def _restarts(self) -> tuple[str, ...]:
        """The services to stop, in order, with a note and a step for each."""
        draft, notes = self._draft, self.notes
        reasons = dict.fromkeys(draft.old.restarts, "a restart that was owed from an earlier change")
        for service, note in draft.old.restarts.items():
            if draft.actual.service(service) is not None or self._may_exist(service):
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
        return stop

    def _may_exist(self, service: str) -> bool:
        dependencies = self._draft.actual.dependencies
        return dependencies is None or listed(service, dependencies)

    def stop(self) -> tuple[str, ...]:
        """What is restarted, and what is removed and runs: nobody owes that a start."""
        draft = self._draft
        services = [draft.found.service(name) for name in draft.decision.install.delete]
        going = tuple(s.name for s in services if s is not None and s.state != ServiceState.STOPPED)
        if not going:
            return self._restarted
        stranded = without(self._stranded(), self._restarted)
        draft.warnings += [f"{name} depends on a service that is removed: it is stopped, and cannot start" for name in stranded]
        return stop_order((*self._restarted, *going, *stranded), _dependencies(draft.found) | _dependencies(draft.actual))

    def start(self, stop: tuple[str, ...]) -> tuple[str, ...]:
        """What was stopped and stays, and what has to run; in the order that dependencies and the payload ask for."""
        decision = self._draft.decision
        gone = (*decision.install.delete, *self._stranded())
        again = without(reversed(stop), gone)
        if not decision.start:
            return again
        return start_order(each_once((*decision.start, *again)), _dependencies(self._draft.actual))

    def _stranded(self) -> tuple[str, ...]:
        """Services of others that depend on one that is removed, as far as they are not known to be stopped."""
        found = []
        for name in dependants(self._draft.decision.install.delete, _dependencies(self._draft.found)):
            present = self._draft.found.service(name)
            if present is None or present.state != ServiceState.STOPPED:
                found.append(name)
        return tuple(found)


def _dependencies(state: ObservedState) -> dict[str, tuple[str, ...]]:
    """Who needs whom: of every service where that was read, else of those that were asked for."""
    if state.dependencies is not None:
        return dict(state.dependencies)
    found = {}
    for service in state.services:
        value = state.registry.value(rf"{SERVICES}\{service.name}", "DependOnService")
        found[service.name] = value.texts() if value and value.type == ValueType.MULTI_SZ else ()
    return found
