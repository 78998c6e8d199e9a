"""Hosts that get proxy and trust, and nothing else."""

from dataclasses import dataclass

from transom.apply.target import Target, one_pass
from transom.controllers.hosts.work import Done, HostSession
from transom.controllers.instance.view import InstanceView
from transom.controllers.join.bootstrap_tokens import BootstrapTokens
from transom.controllers.runtime.conditions import Conditions
from transom.controllers.runtime.controller import Leadership
from transom.hosts.errors import HostError
from transom.hosts.passes import Admit, PassResult
from transom.hosts.passes.converge import taken
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress
from transom.windows.nodes import Lifecycle
from transom.windows.parts.adopted import Adopted


@dataclass(frozen=True)
class ProxyOnly:
    """A pass that brings a host to its settings. What it answers is as `HostWork` says."""

    emptied: bool = False

    def stands_alone(self, case: InstanceView) -> bool:
        """It takes part in rollouts, whatever it is."""
        return False

    async def carry_out(self, on: HostSession, admit: Admit, *, change_expected: bool) -> PassResult:
        """The pass."""
        try:
            taken = await peers(on)
        except HostError as error:
            return PassResult(error=error)
        return await one_pass(
            on.target,
            on.host_keys,
            on.settings,
            check=on.check,
            change_expected=change_expected,
            fetch_anyway=on.owed or on.case.cached.reason("EgressWorks") != "Fetched",
            admit=admit,
            taken=taken,
        )

    async def judge(self, on: HostSession, found: PassResult, given: Egress | None) -> None:
        """Nobody waits for it but the rollout of its settings."""

    async def conclude(self, case: InstanceView, found: PassResult, done: Done, leadership: Leadership) -> Done:
        """All was said."""
        return done

    def remember(self, case: InstanceView, found: PassResult, leadership: Leadership) -> None:
        """The host says it all."""


async def peers(on: HostSession) -> Adopted | None:
    """What another operator left that had the host before; None where none had. Raises HostError."""
    if on.case.node is None or not on.case.node.adopted:
        return None
    first = not on.case.cached.live.state_hash
    return await taken(on.target.access, on.host_keys, on.settings) if first else Adopted()


class EgressHosts:
    """The hosts of lifecycle Egress. What it answers is as `HostLifecycle` says."""

    name: Lifecycle = "Egress"
    refused_again: float | None = None
    tokens: BootstrapTokens | None = None

    def begin(self) -> None:
        """There is nothing to follow but what every controller of hosts follows."""

    def forget(self, key: ObjectKey) -> None:
        """Nothing is remembered."""

    async def refusal(self, case: InstanceView, leadership: Leadership) -> Conditions | None:
        """Nothing more stands in the way."""
        return None

    async def choose(self, case: InstanceView, target: Target, leadership: Leadership) -> ProxyOnly:
        """Always the same."""
        return ProxyOnly()
