"""What Transom writes on the Node of a host that it joined."""

from collections.abc import Mapping
from typing import Final

from transom.controllers.kept import PAYLOAD_VERSION, HeldInstance, HostNode
from transom.controllers.term import Term
from transom.controllers.windows.marks import JOINED
from transom.kube.errors import Conflict, NotFound
from transom.kube.resources import NODES

STATE_HASH: Final = "transom.dev/state-hash"
_WORKER: Final = "node-role.kubernetes.io/worker"
"""Kubelets may not give themselves a role (NodeRestriction); the other labels and the taint they register."""


async def mark(held: HeldInstance, node: HostNode, version: str, digest: str | None, term: Term) -> None:
    """The Node's annotations, and the role that its kubelet may not give it. Raises ApiError."""
    name = node.metadata.name
    try:
        there = await term.client.get(NODES, name)
        marks = {
            JOINED: f"{held.metadata.namespace}/{held.metadata.name}",
            PAYLOAD_VERSION: version,
            **({STATE_HASH: digest} if digest else {}),
        }
        if _has(there.metadata.annotations, marks) and _has(there.metadata.labels, {_WORKER: ""}):
            return
        change = {"metadata": {"uid": there.metadata.uid, "annotations": marks, "labels": {_WORKER: ""}}}
        await term.client.patch(NODES, change, name)
    except (NotFound, Conflict):
        # it is another Node by now; its coming is told
        return


def _has(there: Mapping[str, str] | None, wanted: Mapping[str, str]) -> bool:
    return all((there or {}).get(name) == value for name, value in wanted.items())
