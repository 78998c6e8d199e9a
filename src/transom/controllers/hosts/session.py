"""A visit to a host: whose host it is, as what it is worked on, and what ends the work."""

from collections.abc import Callable
from dataclasses import dataclass

from transom.apply.target import Target, check_missing
from transom.controllers.instance.view import InstanceView, StatusKeys, managed_message
from transom.controllers.runtime.cached import HostNode
from transom.controllers.runtime.leadership import Leadership
from transom.hosts.errors import ManagedByOther
from transom.hosts.passes.passes import PassSettings
from transom.windows.host.state import ObservedState

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
