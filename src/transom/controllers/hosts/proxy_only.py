"""Hosts that get proxy and trust, and nothing else."""

from dataclasses import dataclass

from transom.apply.host_pass import build_convergence
from transom.apply.target import Target
from transom.controllers.hosts.host_work import HostSession, StageResult
from transom.controllers.instance_state.view import InstanceView
from transom.controllers.join.bootstrap_tokens import BootstrapTokens
from transom.controllers.rollout.host_rollout import PassRecord
from transom.controllers.runtime.conditions import Conditions
from transom.controllers.runtime.controller import Leadership
from transom.hosts.errors import HostError
from transom.hosts.passes.base_pass import Admit, PassResult
from transom.hosts.passes.converge import read_adopted_state
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress
from transom.windows.nodes.windows_instance import Lifecycle
from transom.windows.parts.adopted import AdoptedState


@dataclass(frozen=True)
class ProxyOnlyWork:
    """A pass that applies the settings of a host. Methods are those of `HostWork`."""

    node_drained: bool = False

    def can_bypass_rollout(self, view: InstanceView) -> bool:
        """Return False: every such host takes part in rollouts."""
        return False

    async def run_pass(self, session: HostSession, admit: Admit, *, change_expected: bool) -> PassResult:
        """Run the pass."""
        try:
            adopted = await read_predecessor_state(session)
        except HostError as error:
            return PassResult(error=error)
        convergence = build_convergence(
            session.target,
            session.settings,
            check=session.check_state,
            change_expected=change_expected,
            fetch_anyway=session.change_in_flight or session.view.cached.get_reason("EgressWorks") != "Fetched",
            admit=admit,
            adopted=adopted,
        )
        return await convergence.run(session.target.access, session.host_keys)

    async def report_pass(self, session: HostSession, result: PassResult, record: PassRecord, fallback: Egress | None) -> None:
        """Do nothing: only the rollout of settings observes this host."""

    async def build_result(
        self, view: InstanceView, result: PassResult, base: StageResult, leadership: Leadership
    ) -> StageResult:
        """Return the base: there is nothing to add."""
        return base

    def remember_pass(self, view: InstanceView, result: PassResult, leadership: Leadership) -> None:
        """Do nothing: the host has all state."""


async def read_predecessor_state(session: HostSession) -> AdoptedState | None:
    """Return what another operator left on a host that it had before; None if none had it. Raises HostError."""
    if session.view.node is None or not session.view.node.is_adopted:
        return None
    is_first = not session.view.cached.live.state_hash
    return await read_adopted_state(session.target.access, session.host_keys, session.settings) if is_first else AdoptedState()


class EgressLifecycle:
    """The hosts of lifecycle Egress. Methods are those of `HostLifecycle`."""

    name: Lifecycle = "Egress"
    refusal_requeue_after: float | None = None
    tokens: BootstrapTokens | None = None

    def subscribe(self) -> None:
        """Do nothing: the subscriptions of every controller of hosts are enough."""

    def forget(self, key: ObjectKey) -> None:
        """Do nothing: nothing is remembered."""

    async def find_connection_refusal(self, view: InstanceView, leadership: Leadership) -> Conditions | None:
        """Return None: nothing more refuses a host."""
        return None

    async def choose_work(self, view: InstanceView, target: Target, leadership: Leadership) -> ProxyOnlyWork:
        """Return the one work of this lifecycle."""
        return ProxyOnlyWork()
