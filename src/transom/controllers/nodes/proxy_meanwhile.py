"""Nodes that get proxy and trust alone, for now or for good: the works that wait for something, and say what that is."""

from dataclasses import dataclass, replace
from typing import Final

import msgspec

from transom.controllers.hosts.proxy_only import ProxyOnly
from transom.controllers.hosts.work import Done, HostSession
from transom.controllers.instance.view import InstanceView
from transom.controllers.nodes.services import NodeServices, stands_alone
from transom.controllers.runtime.cached import CachedInstance
from transom.controllers.runtime.conditions import Condition, Conditions
from transom.controllers.runtime.controller import Leadership, Result
from transom.hosts.errors import PutBack
from transom.hosts.passes import Admit, PassResult
from transom.proxy.settings import Egress
from transom.windows.parts.adopted import UNATTENDED
from transom.windows.payload.worker import others

PREPARATION: Final = "Preparation"
"""The reason of RebootRequired where it is for Transom to boot the host."""
_ADOPTED: Final = Condition(
    "True",
    "Adopted",
    "another operator made this host a node: its services and files stay as they are. Transom keeps proxy, trust and SSH key, "
    f"and does not look after {', '.join(UNATTENDED)}: `transom adopt --services` has it do so",
)
_MISSING: Final = Condition(
    "False",
    "PayloadMissing",
    "there is no payload to install: run `transom run` with --payload DIR. Proxy and trust are as the settings ask",
)


@dataclass(frozen=True)
class ProxyMeanwhile:
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
    emptied: bool = False

    def stands_alone(self, case: InstanceView) -> bool:
        """As for every node."""
        return stands_alone(case)

    async def carry_out(self, on: HostSession, admit: Admit, *, change_expected: bool) -> PassResult:
        """The pass of a host that gets its proxy alone, for the services that its payload names."""
        payload = self.nodes.source.payload if self.nodes.source is not None else None
        if payload is not None:
            egress = on.target.egress
            own = (service.name for service in payload.services if service.egress)
            windows = msgspec.structs.replace(egress.windows, services=(*own, *others(payload, egress)))
            narrowed = msgspec.structs.replace(egress, windows=windows)
            on = replace(on, target=msgspec.structs.replace(on.target, egress=narrowed))
        return await ProxyOnly().carry_out(on, admit, change_expected=change_expected)

    async def judge(self, on: HostSession, found: PassResult, given: Egress | None) -> None:
        """Nobody waits for it but the rollout of its settings."""

    async def conclude(self, case: InstanceView, found: PassResult, done: Done, leadership: Leadership) -> Done:
        """What the host waits for; what was said of a boot stays, where it is still to come."""
        if found.error is not None:
            return done
        kept = {"Configured"}
        if self.boots and case.cached.reason("RebootRequired") == PREPARATION:
            kept.add("RebootRequired")
        said = {type_: one for type_, one in done.conditions.items() if type_ not in kept}
        result = done.result if self.again is None else Result(again=self.again)
        return replace(done, result=result, conditions=said | waiting(self.condition, case.cached))

    def remember(self, case: InstanceView, found: PassResult, leadership: Leadership) -> None:
        """As for every node."""
        self.nodes.remember(case, found, leadership, lasting=self.lasting)


def adopted(nodes: NodeServices) -> ProxyMeanwhile:
    """The host of a Node that another operator made, and that somebody gave to Transom."""
    return ProxyMeanwhile(nodes, _ADOPTED)


def postponed(nodes: NodeServices, condition: Condition) -> ProxyMeanwhile:
    """The host of a Node that is to get its payload, and not yet."""
    return ProxyMeanwhile(nodes, condition, again=nodes.on.pace.unready, lasting=False)


def without_payload(nodes: NodeServices) -> ProxyMeanwhile:
    """A host that is to be a node, where there is no payload."""
    return ProxyMeanwhile(nodes, _MISSING, boots=False)


def waiting(condition: Condition, cached: CachedInstance) -> Conditions:
    """Why a host is not upgraded yet. What went wrong on this very host says more than that others wait for it."""
    known = condition.reason == "RolloutHalted" and cached.reason("Configured") == PutBack.__name__
    return {} if known else {"Configured": condition}
