"""Nodes that get proxy and trust alone, for now or for good: the works that wait for something, and say what that is."""

from dataclasses import dataclass, replace
from typing import Final

import msgspec

from transom.controllers.hosts.host_work import HostSession, StageResult
from transom.controllers.hosts.proxy_only import ProxyOnlyWork
from transom.controllers.instance_state.view import InstanceView
from transom.controllers.nodes.services import NodeServices, can_change_without_drain
from transom.controllers.rollout.host_rollout import PassRecord
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.controllers.runtime.controller import Leadership, Result
from transom.hosts.errors import PutBack
from transom.hosts.passes.base_pass import Admit, PassResult
from transom.proxy.settings import Egress
from transom.windows.parts.adopted import UNATTENDED
from transom.windows.payload.worker import list_other_services

PREPARATION: Final = "Preparation"
"""The reason of RebootRequired where it is for Transom to boot the host."""
_ADOPTED: Final = Condition(
    "True",
    "Adopted",
    "another operator made this host a node: its services and files stay unchanged. Transom manages proxy, trust and SSH key, "
    f"but not {', '.join(UNATTENDED)}: to have Transom manage them, run `transom adopt --services`",
)
_MISSING: Final = Condition(
    "False",
    "PayloadMissing",
    "no payload to install: run `transom run` with --payload DIR. Proxy and trust match the settings",
)


@dataclass(frozen=True)
class InterimProxyWork:
    """One of these works. What it answers is as `HostWork` says."""

    nodes: NodeServices
    condition: Condition
    """What is said of the host in the place of Configured."""
    again: float | None = None
    """Seconds until the host is looked at again; None: until its next check."""
    boots: bool = True
    """Whether a boot that the host needs is ordered once it has come to that."""
    lasting: bool = True
    """Whether nothing else is expected of the host."""
    node_drained: bool = False

    def can_bypass_rollout(self, view: InstanceView) -> bool:
        """As for every node."""
        return can_change_without_drain(view)

    async def run_pass(self, session: HostSession, admit: Admit, *, change_expected: bool) -> PassResult:
        """Run the pass of a host that gets only its proxy, for the services that its payload names."""
        payload = self.nodes.source.payload if self.nodes.source is not None else None
        if payload is not None:
            egress = session.target.egress
            own = (service.name for service in payload.services if service.egress)
            windows = msgspec.structs.replace(egress.windows, services=(*own, *list_other_services(payload, egress)))
            narrowed = msgspec.structs.replace(egress, windows=windows)
            session = replace(session, target=msgspec.structs.replace(session.target, egress=narrowed))
        return await ProxyOnlyWork().run_pass(session, admit, change_expected=change_expected)

    async def report_pass(self, session: HostSession, result: PassResult, record: PassRecord, fallback: Egress | None) -> None:
        """Report the pass to the rollout of its settings."""

    async def build_result(
        self, view: InstanceView, pass_result: PassResult, base: StageResult, leadership: Leadership
    ) -> StageResult:
        """Return what the host waits for; a pending reboot stays in the conditions."""
        if pass_result.error is not None:
            return base
        kept = {"Configured"}
        if self.boots and view.cached.get_reason("RebootRequired") == PREPARATION:
            kept.add("RebootRequired")
        conditions = {type_: condition for type_, condition in base.conditions.items() if type_ not in kept}
        result = base.result if self.again is None else Result(again=self.again)
        return replace(base, result=result, conditions=conditions | build_waiting_conditions(self.condition, view.cached))

    def remember_pass(self, view: InstanceView, result: PassResult, leadership: Leadership) -> None:
        """As for every node."""
        self.nodes.record_pass(view, result, leadership, is_final=self.lasting)


def for_adopted_node(nodes: NodeServices) -> InterimProxyWork:
    """Return the work for a host whose Node another operator created and that a person assigned to Transom."""
    return InterimProxyWork(nodes, _ADOPTED)


def for_postponed_payload(nodes: NodeServices, condition: Condition) -> InterimProxyWork:
    """Return the work for a host whose Node gets its payload later."""
    return InterimProxyWork(nodes, condition, again=nodes.on.pace.unready, lasting=False)


def for_missing_payload(nodes: NodeServices) -> InterimProxyWork:
    """Return the work for a host that should become a node before a payload exists."""
    return InterimProxyWork(nodes, _MISSING, boots=False)


def build_waiting_conditions(condition: Condition, cached: CachedInstance) -> Conditions:
    """Why a host is not upgraded yet. What went wrong on this very host says more than that others wait for it."""
    known = condition.reason == "RolloutHalted" and cached.get_reason("Configured") == PutBack.__name__
    return {} if known else {"Configured": condition}
