"""Why a host is not worked on as a node: which Node it is was decided otherwise than it says, or cannot be decided."""

from typing import Final

from transom.hosts.errors import HostError
from transom.windows.addresses import address
from transom.windows.host.state import ObservedState
from transom.windows.nodes.node_identity import Identity


class NodeNameTaken(HostError):
    """The name is that of another instance, or of a Node that is not this instance's."""


class NodeNameChanged(HostError):
    """The instance has joined under another name."""


class NodeNameInvalid(HostError):
    """The name that the host gives itself cannot be a Node's."""


class NodeAddressAmbiguous(HostError):
    """Two Nodes have the address of the host."""


class NodeAddressUnknown(HostError):
    """The host's own address is neither the one that SSH reaches nor the one that a person gave."""


class NotRecorded(HostError):
    """Which Node the host is could not be written down: nothing may follow from it."""


_ERRORS: Final[dict[str, type[HostError]]] = {
    one.__name__: one for one in (NodeNameTaken, NodeNameChanged, NodeNameInvalid, NodeAddressAmbiguous)
}


def error_of(identity: Identity) -> HostError | None:
    """The refusal of an identity; None where there is none, or where another cluster has the Node."""
    made = _ERRORS.get(identity.refusal)
    return made(identity.message) if made is not None else None


def node_ip(state: ObservedState, given: str | None) -> str:
    """The address that a host's kubelet registers: the given one, else the one that SSH reached. Raises NodeAddressUnknown."""
    wanted = address(given) if given else None
    if state.own_address and state.own_address not in (state.reached, wanted):
        reached = f"SSH reaches it by {state.reached}" + (f", spec.nodeIP is {wanted}" if wanted else "")
        raise NodeAddressUnknown(
            f"the host's own address is {state.own_address}, and {reached}: set spec.nodeIP to the one that its Node is to have"
        )
    return wanted or state.reached
