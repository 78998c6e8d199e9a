"""Which changes of an object concern a host: the others are not worked on. Pure."""

from typing import Any

from transom.controllers.instance.view import FINGERPRINT
from transom.controllers.runtime.cached import CachedInstance, HostNode


def wanted(cached: CachedInstance) -> tuple[Any, ...]:
    """What of an instance people write: its spec, its annotations, and the fields of its status that they clear."""
    meta = cached.metadata
    cleared = not cached.live.get(FINGERPRINT) and cached.reason("Reachable") == "HostKeyChanged"
    undecided = not cached.live.get("nodeName") and cached.reason("Configured") in ("NodeNameTaken", "NodeNameChanged")
    return meta.uid, meta.generation, meta.annotations or {}, meta.deletion_timestamp, cleared, undecided


def is_settled(cached: CachedInstance) -> bool:
    """Whether an instance was done, by whoever worked before: it is in no hurry."""
    listed = cached.live.get("conditions") or ()
    configured: dict[str, Any] = next((one for one in listed if one.get("type") == "Configured"), {})
    return configured.get("status") == "True" and configured.get("observedGeneration") == cached.metadata.generation


def of_node(node: HostNode | None) -> tuple[Any, ...] | None:
    """What of a Node concerns its instance; a heartbeat changes nothing of it."""
    if node is None:
        return None
    ready = (node.ready.status, node.ready.reason) if node.ready is not None else None
    # what is done to it while it is first configured is nobody's news
    cordoned = node.cordoned and node.first_configuration != "Cordoned"
    whose = (node.managed_by_other, node.adopted, node.takes)
    return node.metadata.uid, ready, whose, node.addresses, cordoned, node.system, node.uninitialized
