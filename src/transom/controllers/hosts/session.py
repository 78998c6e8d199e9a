"""A visit to a host: whose host it is, as what it is worked on, and what ends the work."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from transom.apply.target import Target, check_missing
from transom.controllers.instance.view import FINGERPRINT, InstanceView, StatusKeys, managed_message
from transom.controllers.runtime.cached import ADOPT, HostNode
from transom.controllers.runtime.leadership import Leadership
from transom.controllers.runtime.options import Pace
from transom.hosts.errors import ManagedByOther
from transom.hosts.passes.passes import PassSettings
from transom.kube.errors import ApiError
from transom.kube.lease import LeaseLost
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


@dataclass(frozen=True)
class Contact:
    """How hosts are met: `keep` writes the fingerprint of a host's key into the status of a case."""

    keep: Callable[[InstanceView, str, Leadership], Awaitable[None]]
    require_host_keys: bool


def visit(
    case: InstanceView, target: Target, leadership: Leadership, pace: Pace, managed: Managed, contact: Contact
) -> HostSession:
    """A visit to the host of a case, while the lease is held."""

    async def keep(fingerprint: str) -> None:
        await contact.keep(case, fingerprint, leadership)

    recorded = case.cached.live.get(FINGERPRINT)
    host_keys = StatusKeys(case.cached.metadata.name, recorded, keep, required=contact.require_host_keys)
    adopts = (case.cached.metadata.annotations or {}).get(ADOPT) == "true"
    settings = PassSettings(
        leadership.owner, None, pace.timeouts, pace.patience, leadership.permit, (LeaseLost, ApiError), adopts=adopts
    )
    return HostSession(case, target, host_keys, settings, leadership, managed)
