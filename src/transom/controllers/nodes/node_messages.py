"""The missing parts of a node, as a message for its condition `Configured`."""

from collections.abc import Iterator, Mapping, Set
from typing import Final

from transom.controllers.instance_state.joined_nodes import is_pending
from transom.controllers.runtime.cached_objects import UNINITIALIZED, HostNode
from transom.hosts.errors import HostError
from transom.hosts.passes.configure import ConfigureResult
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import SERVICES
from transom.windows.nodes import support
from transom.windows.parts.adopted import PEER
from transom.windows.parts.installation import DRIFT
from transom.windows.payload.payload import Payload
from transom.windows.payload.worker import WaitingService
from transom.windows.planning.planner import Plan

_SHOWN: Final = 5


class AdoptedNodeFound(HostError):
    """Once the host was reached, it is seen to be a Node that another operator made."""


def describe_outstanding(result: ConfigureResult, node: HostNode | None) -> str:
    """Return what the Node waits for before it accepts pods; empty if everything runs."""
    listed = [_format_waiting(wait) for wait in result.waits if wait.required]
    if node is not None and node.uninitialized:
        listed.append(
            f"Node {node.metadata.name} has the taint {UNINITIALIZED}: the cloud provider has not looked at it yet (see its "
            "cloud controller manager, on Azure the service cloud-node-manager, and whether the cloud knows the instance under "
            "this name: on AWS by its private DNS name, on vSphere by its full name; else set spec.nodeName)"
        )
    if listed and node is not None and is_pending(node):
        listed.append("the Node takes no pods until then")
    return "; ".join(listed)


def iter_remarks(result: ConfigureResult, payload: Payload, linux: Set[str]) -> Iterator[str]:
    """Iterate over notes on a Node that has everything it needs; `linux` are the versions of the Linux nodes' kubelets."""
    yield from (_format_waiting(wait) for wait in result.waits if not wait.required)
    if (odd := support.find_skew_warning(payload.kubernetes, set(linux))) is not None:
        yield odd


def iter_takeover_notes(state: ObservedState) -> Iterator[str]:
    """Iterate over notes on what belonged to another operator on a host that Transom took over, and what still does."""
    services = ledger.read(state.registry).installed.services
    if not (ours := [name for name, own in services.items() if own.taken is not None]):
        return
    yield f"taken over: {', '.join(ours)}"
    if kept := [name for name, own in services.items() if own.adopted]:
        yield f"left as found: {', '.join(kept)}"
    if state.find_service(PEER) is not None:
        yield f"{PEER} of the host's previous operator still exists, and does nothing: remove it with sc.exe delete"


def hash_configurations(state: ObservedState | None) -> dict[str, int]:
    """Return a hash of each service's configuration without its environment; valid in this process only."""
    keys = state.registry.list_keys_below(SERVICES) if state is not None else ()
    return {
        key.path.casefold().removeprefix(f"{SERVICES.casefold()}\\"): hash(
            frozenset((name, named.value) for name, named in (key.values or {}).items() if name != "environment")
        )
        for key in keys
    }


def describe_repairs(plan: Plan, last_configurations: Mapping[str, int], configurations_before: Mapping[str, int]) -> str:
    """Describe the unrequested differences from the payload; empty if none exist.

    A service whose configuration before the pass is that which the last pass left has a requested change; so has one that
    `last_configurations` does not have.
    """
    repaired = [
        f"{step.target}: {step.reason}"
        for step in plan.steps
        if step.reason.startswith(DRIFT.get(step.kind, ()))
        and not (
            step.kind == "service"
            and step.action == "replace"
            and _is_unchanged_since_pass(step.target.casefold(), last_configurations, configurations_before)
        )
    ]
    more = f"; and {len(repaired) - _SHOWN} more" if len(repaired) > _SHOWN else ""
    return "; ".join(repaired[:_SHOWN]) + more


def _is_unchanged_since_pass(
    name: str, last_configurations: Mapping[str, int], configurations_before: Mapping[str, int]
) -> bool:
    return name not in last_configurations or last_configurations[name] == configurations_before.get(name)


def _format_waiting(waiting: WaitingService) -> str:
    return f"{waiting.service} waits for {waiting.needs}: {waiting.why}"
