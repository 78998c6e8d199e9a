"""A visit to a host: whose host it is, as what it is worked on, and what ends the work."""

from collections.abc import Callable
from dataclasses import dataclass

from transom.controllers.kept import HostNode
from transom.controllers.options import Pace
from transom.controllers.term import Term
from transom.controllers.windows.case import FINGERPRINT, Case, ManagedByOther, StatusKeys, managed_message
from transom.controllers.windows.hosts import Target
from transom.hosts.passes import Settings
from transom.windows.instance import WindowsInstance
from transom.windows.state import HostState

NodeOf = Callable[[WindowsInstance, str], HostNode | None]
"""The Node of an instance whose host has this computer name."""


@dataclass(frozen=True)
class Visit:
    """What one pass on a host needs to know."""

    case: Case
    target: Target
    host_keys: StatusKeys
    settings: Settings
    term: Term
    node_of: NodeOf

    def check(self, actual: HostState) -> None:
        """Asked with each state that a plan is made from. Raises ManagedByOther, and LeaseLost."""
        self.term.permit()
        if (node := self.node_of(self.target.instance, actual.computer_name)) is not None and node.managed_by_other:
            raise ManagedByOther(managed_message(node))


def visit(case: Case, target: Target, term: Term, pace: Pace, node_of: NodeOf) -> Visit:
    """A visit to the host of a case, while the lease is held."""
    host_keys = StatusKeys(case.held.metadata.name, case.held.live.get(FINGERPRINT))
    settings = Settings(term.owner, None, pace.timeouts, pace.patience, term.permit)
    return Visit(case, target, host_keys, settings, term, node_of)
