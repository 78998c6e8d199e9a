"""What of a node is not there yet, in words for its condition `Configured`."""

from collections.abc import Iterator, Set
from typing import Final

from transom.controllers.instance.first_configuration import is_pending
from transom.controllers.runtime.cached import UNINITIALIZED, HostNode
from transom.hosts.passes.configure import Configured
from transom.windows.nodes import skew
from transom.windows.parts.installation import DRIFT
from transom.windows.payload.payload import Payload
from transom.windows.payload.worker import Waiting
from transom.windows.planning.plan import Plan

_SHOWN: Final = 5


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
    if (odd := skew.warning(payload.kubernetes, set(linux))) is not None:
        yield odd


def put_right(plan: Plan) -> str:
    """What was not as the payload has it, though nobody had asked for another one; empty where all of it was."""
    found = [f"{step.target}: {step.reason}" for step in plan.steps if step.reason.startswith(DRIFT.get(step.kind, ()))]
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


def _said(one: Waiting) -> str:
    return f"{one.service} waits for {one.needs}: {one.why}"
