"""What of a node is not there yet, in words for its condition `Configured`."""

from collections.abc import Iterator, Mapping, Set
from typing import Final

from transom.controllers.instance.joined_nodes import is_pending
from transom.controllers.runtime.cached import UNINITIALIZED, HostNode
from transom.hosts.errors import HostError
from transom.hosts.passes.configure import Configured
from transom.windows import ledger
from transom.windows.host import ObservedState
from transom.windows.host.queries import SERVICES
from transom.windows.nodes import support
from transom.windows.parts.adopted import PEER
from transom.windows.parts.installation import DRIFT
from transom.windows.payload import Payload
from transom.windows.payload.worker import Waiting
from transom.windows.planning import Plan

_SHOWN: Final = 5


class AdoptedNodeFound(HostError):
    """Once the host was reached, it is seen to be a Node that another operator made."""


def outstanding(found: Configured, node: HostNode | None) -> str:
    """What the Node waits for before it takes pods; empty where all of it runs."""
    listed = [_said(one) for one in found.waits if one.required]
    if node is not None and node.uninitialized:
        listed.append(
            f"Node {node.metadata.name} has the taint {UNINITIALIZED}: the cloud provider has not looked at it yet (see its "
            "cloud controller manager, and on Azure the service cloud-node-manager)"
        )
    if listed and node is not None and is_pending(node):
        listed.append("the Node takes no pods until then")
    return "; ".join(listed)


def remarks(found: Configured, payload: Payload, linux: Set[str]) -> Iterator[str]:
    """What is worth a word where all that the Node needs is there; `linux` are the versions of the Linux nodes' kubelets."""
    yield from (_said(one) for one in found.waits if not one.required)
    if (odd := support.skew_warning(payload.kubernetes, set(linux))) is not None:
        yield odd


def taken_over(state: ObservedState) -> Iterator[str]:
    """What of a host was another operator's, where a person had it taken over, and what still is."""
    services = ledger.read(state.registry).installed.services
    if not (ours := [name for name, own in services.items() if own.taken is not None]):
        return
    yield f"taken over: {', '.join(ours)}"
    if kept := [name for name, own in services.items() if own.adopted]:
        yield f"left as found: {', '.join(kept)}"
    if state.service(PEER) is not None:
        yield f"{PEER} of the operator that had the host before is still there, and does nothing: remove it with sc.exe delete"


def configurations(state: ObservedState | None) -> dict[str, int]:
    """A hash of how each service of a host is configured, but for its environment; in this process alone."""
    keys = state.registry.below(SERVICES) if state is not None else ()
    return {
        key.path.casefold().removeprefix(f"{SERVICES.casefold()}\\"): hash(
            frozenset((name, named.value) for name, named in (key.values or {}).items() if name != "environment")
        )
        for key in keys
    }


def put_right(plan: Plan, left: Mapping[str, int], before: Mapping[str, int]) -> str:
    """What was not as the payload has it, though nobody had asked for another one; empty where all of it was.

    A service that is configured `before` a pass as the last one `left` it is asked for otherwise; also where none is known.
    """
    found = [
        f"{step.target}: {step.reason}"
        for step in plan.steps
        if step.reason.startswith(DRIFT.get(step.kind, ()))
        and not (step.kind == "service" and step.action == "replace" and _is_as_left(step.target.casefold(), left, before))
    ]
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


def _is_as_left(name: str, left: Mapping[str, int], before: Mapping[str, int]) -> bool:
    return name not in left or left[name] == before.get(name)


def _said(one: Waiting) -> str:
    return f"{one.service} waits for {one.needs}: {one.why}"
