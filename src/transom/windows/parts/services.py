"""The services of a payload, as a part of an installation.

An existing service is adopted: it is never reconfigured or removed, unless a user handed it over to Transom.
"""

from typing import Final

import msgspec

from transom.windows.host.host_state import ServiceState, Step
from transom.windows.host.queries import SERVICES
from transom.windows.parts import service
from transom.windows.parts.installed import InstalledPayload, OwnService, TakenOverService
from transom.windows.parts.plan_builder import PlanBuilder
from transom.windows.parts.service import Configuration
from transom.windows.registry.names import FoldedDict, is_listed, remove_duplicates
from transom.windows.registry.registry import Key

_GONE: Final = "it is gone"
_DOES_NOT_RUN: Final = "it does not run"
_DIFFERS: Final = "its configuration differs"
_TAKEN: Final = "taken over from another operator"
DRIFT: Final = (_GONE, _DOES_NOT_RUN, _DIFFERS)
"""The beginning of the reasons of steps that no change of settings requires."""
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
    forgotten: tuple[str, ...]
    """Services that the ledger no longer lists afterwards."""

    def build_final_entry(self, interim_entry: InstalledPayload) -> InstalledPayload:
        """Return the ledger's entry after the changes."""
        excluded = FoldedDict.from_names(self.forgotten)
        return msgspec.structs.replace(
            interim_entry, services={n: own for n, own in interim_entry.services.items() if n not in excluded}
        )


def plan_services(recorded: InstalledPayload, draft: PlanBuilder) -> ServiceChanges:
    """Plan the services to create, configure and remove, each with its step. Those that must run enter the draft."""
    wanted = _list_wanted_keys(draft)
    lines, known = FoldedDict(recorded.services), FoldedDict(recorded.services)
    create: list[Configuration] = []
    configure: list[Configuration] = []
    running = FoldedDict.from_names(item.name for item in draft.desired.services if item.state == ServiceState.RUNNING)
    needed = []
    for name, key in wanted.items():
        existing, own = draft.observed.find_service(name), known.get(name)
        present = draft.observed.registry.find_key(key.path)
        configuration = service.parse_configuration(name, key)
        if own is not None and not own.adopted:
            lines[name] = _build_own_service(name, own.taken, draft)
        if existing is None or present is None:
            create.append(configuration)
            lines[name] = _build_own_service(name, own.taken if own else None, draft)
            draft.steps.append(Step("service", name, "add", "part of the payload" if own is None else _GONE))
        elif (own is None or own.adopted) and is_listed(name, draft.desired.takes):
            configure.append(service.with_existing_items(configuration, present))
            taken = service.build_taken_over_service(present)
            lines[name] = _build_own_service(name, taken, draft)
            draft.steps.append(Step("service", name, "replace", _TAKEN, taken.command))
            draft.restarts[name] = _TAKEN
        elif own is None:
            lines[name] = OwnService(adopted=True)
            draft.steps.append(Step("ledger", name, "add", "existing service: adopted, only its environment is managed"))
            continue
        elif own.adopted:
            continue
        elif differing := service.list_differences(configuration, present):
            configure.append(service.with_existing_items(configuration, present))
            draft.steps.append(Step("service", name, "replace", f"{_DIFFERS}: {', '.join(differing)}"))
            draft.restarts[name] = "its configuration changes"
        if name in running and (existing is None or existing.state in _DOWN):
            needed.append(name)
            if existing is not None:
                draft.steps.append(Step("service", name, "restart", _DOES_NOT_RUN))
    draft.needed = tuple(needed)
    removed_services = {name: own for name, own in recorded.services.items() if name not in wanted}
    networks = tuple(dict.fromkeys(network for own in removed_services.values() for network in own.networks))
    draft.removed = _plan_removals(removed_services, draft)
    return ServiceChanges(tuple(create), tuple(configure), draft.removed, networks, dict(lines), tuple(removed_services))


def _list_wanted_keys(draft: PlanBuilder) -> FoldedDict[Key]:
    """Their keys, in the order of start: that of the wish's services, then others."""
    registry = draft.desired.registry
    named = remove_duplicates((*(item.name for item in draft.desired.services), *registry.list_children(SERVICES)))
    keys = ((name, registry.find_key(rf"{SERVICES}\{name}")) for name in named)
    return FoldedDict((name, key) for name, key in keys if key is not None and service.has_configuration(key))


def _build_own_service(name: str, taken: TakenOverService | None, draft: PlanBuilder) -> OwnService:
    return OwnService(networks=draft.desired.networks.get(name, ()), taken=taken)


def _plan_removals(removed_services: dict[str, OwnService], draft: PlanBuilder) -> tuple[str, ...]:
    names = []
    for name, own in removed_services.items():
        draft.steps += [Step("windows", f"HNS network {network}", "remove", f"{name} made it") for network in own.networks]
        if own.adopted:
            draft.steps.append(Step("ledger", name, "remove", "no longer in the payload, and not ours to remove"))
        elif draft.observed.find_service(name) is not None:
            names.append(name)
            draft.restarts[name] = "the payload does not contain it any more"
            draft.steps.append(Step("service", name, "remove", "no longer in the payload"))
    return tuple(names)
