"""What is done to a host: a lifecycle chooses one work for each visit, and what it is asked it answers with values."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from transom.apply.target import Target, check_missing
from transom.controllers.instance.view import InstanceView, StatusKeys, managed_message
from transom.controllers.join.bootstrap_tokens import BootstrapTokens
from transom.controllers.keys.key_rotation import Opened
from transom.controllers.runtime.cached import HostNode
from transom.controllers.runtime.conditions import Condition, Conditions, Fields
from transom.controllers.runtime.controller import Leadership, Result
from transom.hosts.errors import ManagedByOther
from transom.hosts.passes import Admit, PassResult, PassSettings
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress
from transom.windows.host import ObservedState
from transom.windows.nodes import Lifecycle

Managed = Callable[[str, str], HostNode | None]
"""A Node of another operator's that a host with this computer name, reached at this address, may be."""


@dataclass(frozen=True)
class HostSession:
    """What one pass on a host needs to know."""

    case: InstanceView
    target: Target
    host_keys: StatusKeys
    settings: PassSettings
    leadership: Leadership
    managed: Managed
    owed: bool = False
    """Whether a change was begun on the host of which nobody knows yet how it is: the host tries what it is for."""

    def check(self, actual: ObservedState) -> None:
        """Asked with each state that a plan is made from. Raises ManagedByOther, SettingsMissing, and LeaseLost."""
        self.leadership.permit()
        check_missing(self.target.egress, actual)
        if (node := self.managed(actual.computer_name.lower(), actual.reached)) is not None:
            raise ManagedByOther(managed_message(node))


@dataclass(frozen=True)
class Done:
    """The end of the way of a key: when it is looked at again, and what is said of its instance.

    Without `case` nothing is written. `quiet`: no event is made of what is newly wrong.
    """

    result: Result = field(default_factory=Result)
    case: InstanceView | None = None
    conditions: Conditions = field(default_factory=dict)
    fields: Fields = field(default_factory=dict)
    quiet: bool = False

    def saying(self, **conditions: Condition) -> "Done":
        """The same, with these conditions in the place of what was said of their types."""
        return replace(self, conditions=self.conditions | conditions)


class HostWork(Protocol):
    """What is done to one host in one visit."""

    @property
    def emptied(self) -> bool:
        """Whether the host's Node was emptied for it."""
        ...

    def stands_alone(self, case: InstanceView) -> bool:
        """Whether the host takes no part in rollouts: there is nothing on it that a change could harm."""
        ...

    async def carry_out(self, on: HostSession, admit: Admit, *, change_expected: bool) -> PassResult:
        """The connection, and what is done over it. `admit` is asked before a change; troubles are in the result."""
        ...

    async def judge(self, on: HostSession, found: PassResult, given: Egress | None) -> None:
        """Tell whoever waits for what became of it. `given` are the settings that the host got in place of its target's."""
        ...

    async def conclude(self, case: InstanceView, found: PassResult, done: Done, leadership: Leadership) -> Done:
        """What is to be said besides what is said after every pass (`done`). Raises ApiError."""
        ...

    def remember(self, case: InstanceView, found: PassResult, leadership: Leadership) -> None:
        """Keep what later visits need of this one."""
        ...


@dataclass(frozen=True)
class Visit:
    """A host that is worked on, as far as it has come."""

    session: HostSession
    work: HostWork
    opened: Opened
    found: PassResult = field(default_factory=PassResult)

    def by(self, opened: Opened) -> "Visit":
        """The same visit with another key."""
        return replace(self, opened=opened, session=replace(self.session, target=opened.target))


class HostLifecycle(Protocol):
    """What is done with the hosts of one lifecycle; instances of others are somebody else's."""

    @property
    def name(self) -> Lifecycle:
        """As `spec.lifecycle` has it."""
        ...

    @property
    def refused_again(self) -> float | None:
        """Seconds after which a host that is not connected to is thought of again, where no object says when."""
        ...

    @property
    def tokens(self) -> BootstrapTokens | None:
        """Where hosts are joined, their nodes are drained and go as well."""
        ...

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        ...

    def forget(self, key: ObjectKey) -> None:
        """The instance is to go, or is gone."""
        ...

    async def refusal(self, case: InstanceView, leadership: Leadership) -> Conditions | None:
        """Why the host is not connected to; None where it is. Raises ApiError."""
        ...

    async def choose(self, case: InstanceView, target: Target, leadership: Leadership) -> HostWork | Done:
        """What is done to the host now; Done where it is not connected to this time. Raises ApiError."""
        ...
