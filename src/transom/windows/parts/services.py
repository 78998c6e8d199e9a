"""The services of a payload, as a part of an installation.

One that was there before is adopted and left: it is never reconfigured or removed, unless a person gave it to Transom.
"""

from typing import Final

import msgspec

from transom.windows.host import ServiceState, Step
from transom.windows.host.queries import SERVICES
from transom.windows.parts import service
from transom.windows.parts.installed import Installed, OwnService, TakenOver
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.parts.service import Configuration
from transom.windows.registry import Key
from transom.windows.registry.names import FoldedDict, each_once, listed

_GONE: Final = "it is gone"
_DOES_NOT_RUN: Final = "it does not run"
_DIFFERS: Final = "its configuration differs"
_TAKEN: Final = "taken over from another operator"
DRIFT: Final = (_GONE, _DOES_NOT_RUN, _DIFFERS)
"""How the reasons of steps begin where nobody had asked for a change."""
_DOWN: Final = (ServiceState.STOPPED, ServiceState.STOP_PENDING)


class ServiceChanges(msgspec.Struct, frozen=True):
    """What is done about services, and the ledger's lines of them while it is done.

    Those of `configure` exist, and get another configuration; `networks` are the HNS networks that removed ones made.
    """

    create: tuple[Configuration, ...]
    configure: tuple[Configuration, ...]
    delete: tuple[str, ...]
    networks: tuple[str, ...]
    lines: dict[str, OwnService]
    gone: tuple[str, ...]
    """Services that the ledger no longer speaks of afterwards."""

    def done(self, begun: Installed) -> Installed:
        """What the ledger says afterwards."""
        gone = FoldedDict.of(self.gone)
        return msgspec.structs.replace(begun, services={n: own for n, own in begun.services.items() if n not in gone})


def plan_services(recorded: Installed, draft: PlanBuilder) -> ServiceChanges:
    """What has to be made, configured and removed; each with its step. Those that have to run enter the draft."""
    wanted = _wanted(draft)
    lines, known = FoldedDict(recorded.services), FoldedDict(recorded.services)
    create: list[Configuration] = []
    configure: list[Configuration] = []
    running = FoldedDict.of(one.name for one in draft.desired.services if one.state == ServiceState.RUNNING)
    needed = []
    for name, key in wanted.items():
        there, own = draft.found.service(name), known.get(name)
        present = draft.found.registry.key(key.path)
        configuration = service.of_key(name, key)
        if own is not None and not own.adopted:
            lines[name] = _own(name, own.taken, draft)
        if there is None or present is None:
            create.append(configuration)
            lines[name] = _own(name, own.taken if own else None, draft)
            draft.steps.append(Step("service", name, "add", "part of the payload" if own is None else _GONE))
        elif (own is None or own.adopted) and listed(name, draft.desired.takes):
            configure.append(service.with_items_of(configuration, present))
            taken = service.taken_over(present)
            lines[name] = _own(name, taken, draft)
            draft.steps.append(Step("service", name, "replace", _TAKEN, taken.command))
            draft.restarts[name] = _TAKEN
        elif own is None:
            lines[name] = OwnService(adopted=True)
            draft.steps.append(Step("ledger", name, "add", "was there before: adopted, and only its environment is ours"))
            continue
        elif own.adopted:
            continue
        elif differing := service.differences(configuration, present):
            configure.append(service.with_items_of(configuration, present))
            draft.steps.append(Step("service", name, "replace", f"{_DIFFERS}: {', '.join(differing)}"))
            draft.restarts[name] = "its configuration changes"
        if name in running and (there is None or there.state in _DOWN):
            needed.append(name)
            if there is not None:
                draft.steps.append(Step("service", name, "restart", _DOES_NOT_RUN))
    draft.needed = tuple(needed)
    gone = {name: own for name, own in recorded.services.items() if name not in wanted}
    networks = tuple(dict.fromkeys(network for own in gone.values() for network in own.networks))
    draft.removed = _removed(gone, draft)
    return ServiceChanges(tuple(create), tuple(configure), draft.removed, networks, dict(lines), tuple(gone))


def _wanted(draft: PlanBuilder) -> FoldedDict[Key]:
    """Their keys, in the order of start: that of the wish's services, then others."""
    registry = draft.desired.registry
    named = each_once((*(one.name for one in draft.desired.services), *registry.children(SERVICES)))
    keys = ((name, registry.key(rf"{SERVICES}\{name}")) for name in named)
    return FoldedDict((name, key) for name, key in keys if key is not None and service.configured(key))


def _own(name: str, taken: TakenOver | None, draft: PlanBuilder) -> OwnService:
    return OwnService(networks=draft.desired.networks.get(name, ()), taken=taken)


def _removed(gone: dict[str, OwnService], draft: PlanBuilder) -> tuple[str, ...]:
    found = []
    for name, own in gone.items():
        draft.steps += [Step("windows", f"HNS network {one}", "remove", f"{name} made it") for one in own.networks]
        if own.adopted:
            draft.steps.append(Step("ledger", name, "remove", "no longer in the payload, and not ours to remove"))
        elif draft.found.service(name) is not None:
            found.append(name)
            draft.restarts[name] = "it is no longer in the payload"
            draft.steps.append(Step("service", name, "remove", "no longer in the payload"))
    return tuple(found)
