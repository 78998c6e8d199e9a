"""What is done to a host: a lifecycle chooses one work for each reconciliation, and the work answers with values."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from transom.apply.target import Target, ensure_settings_exist
from transom.controllers.instance_state.view import InstanceView, StatusHostKeys, format_managed_message
from transom.controllers.join.bootstrap_tokens import BootstrapTokens
from transom.controllers.keys.key_rotation import KeySelection
from transom.controllers.rollout.host_rollout import PassRecord
from transom.controllers.runtime.cached_objects import HostNode
from transom.controllers.runtime.conditions import Condition, Conditions, Fields
from transom.controllers.runtime.controller import Leadership, Result
from transom.hosts.errors import ManagedByOther
from transom.hosts.passes.base_pass import Admit, PassResult, PassSettings
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress
from transom.windows.host.host_state import ObservedState
from transom.windows.nodes.windows_instance import Lifecycle

FindManaged = Callable[[str, str], HostNode | None]
"""Returns a Node of another operator that a host with this computer name, reached at this address, may be."""


@dataclass(frozen=True)
class HostSession:
    """What one pass on a host needs to know."""

    view: InstanceView
    target: Target
    host_keys: StatusHostKeys
    settings: PassSettings
    leadership: Leadership
    find_managed: FindManaged
    change_in_flight: bool = False
    """Whether a change was begun on the host whose result is not known: the host tries what the change is for."""

    def check_state(self, actual: ObservedState) -> None:
        """Check each state that a plan is made from. Raises ManagedByOther, SettingsMissing, and LeaseLost."""
        self.leadership.permit()
        ensure_settings_exist(self.target.egress, actual)
        if (node := self.find_managed(actual.computer_name.lower(), actual.reached)) is not None:
            raise ManagedByOther(format_managed_message(node))


@dataclass(frozen=True)
class StageResult:
    """The end of a reconciliation: when the key is requeued, and what is written to its instance.

    Without `view` nothing is written. `quiet`: new faults make no event.
    """

    result: Result = field(default_factory=Result)
    view: InstanceView | None = None
    conditions: Conditions = field(default_factory=dict)
    fields: Fields = field(default_factory=dict)
    quiet: bool = False

    def with_conditions(self, **conditions: Condition) -> "StageResult":
        """Return the result with these conditions in place of those of their types."""
        return replace(self, conditions=self.conditions | conditions)


class HostWork(Protocol):
    """What is done to one host in one reconciliation."""

    @property
    def node_drained(self) -> bool:
        """Whether the host's Node was drained for it."""
        ...

    def can_bypass_rollout(self, view: InstanceView) -> bool:
        """Return True if the host takes no part in rollouts: nothing on it could be harmed by a change."""
        ...

    async def run_pass(self, session: HostSession, admit: Admit, *, change_expected: bool) -> PassResult:
        """Connect to the host and work on it. `admit` is asked before a change; failures are in the result."""
        ...

    async def report_pass(self, session: HostSession, result: PassResult, record: PassRecord, fallback: Egress | None) -> None:
        """Report the pass to those that wait for it. `fallback` are the settings that the host got instead of its target's."""
        ...

    async def build_result(
        self, view: InstanceView, result: PassResult, base: StageResult, leadership: Leadership
    ) -> StageResult:
        """Return `base`, which every pass has, with what this work adds. Raises ApiError."""
        ...

    def remember_pass(self, view: InstanceView, result: PassResult, leadership: Leadership) -> None:
        """Keep what later reconciliations need of this one."""
        ...


@dataclass(frozen=True)
class Reconciliation:
    """A host that is worked on, as far as the stages have come."""

    session: HostSession
    work: HostWork
    keys: KeySelection
    result: PassResult = field(default_factory=PassResult)
    fallback: Egress | None = None
    """The settings that the host got while newer ones are on their way to others; None: its target's."""
    applied: Egress | None = None
    """The settings that the host has after the pass, as far as this process knows; None if it does not."""

    def with_keys(self, keys: KeySelection) -> "Reconciliation":
        """Return the reconciliation with other keys."""
        return replace(self, keys=keys, session=replace(self.session, target=keys.target))


class HostLifecycle(Protocol):
    """What is done with the hosts of one lifecycle; instances of others belong to other controllers."""

    @property
    def name(self) -> Lifecycle:
        """The value of `spec.lifecycle`."""
        ...

    @property
    def refusal_requeue_after(self) -> float | None:
        """Seconds after which a host that is not connected to is requeued, if no object tells when."""
        ...

    @property
    def tokens(self) -> BootstrapTokens | None:
        """The bootstrap tokens of a lifecycle that joins hosts: their Nodes are drained and deleted, too."""
        ...

    def subscribe(self) -> None:
        """Subscribe to the stores, which have been filled."""
        ...

    def forget(self, key: ObjectKey) -> None:
        """Forget an instance that is being deleted or is gone."""
        ...

    async def find_connection_refusal(self, view: InstanceView, leadership: Leadership) -> Conditions | None:
        """Return why the host is not connected to; None if it is. Raises ApiError."""
        ...

    async def choose_work(self, view: InstanceView, target: Target, leadership: Leadership) -> HostWork | StageResult:
        """Return what is done to the host now, or the result if it is not connected to. Raises ApiError."""
        ...
