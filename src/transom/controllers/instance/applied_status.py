"""A status of a WindowsInstance, applied: by `StatusWriter`, and by who has a field manager, or a version, of his own."""

from typing import Any

import msgspec

from transom.controllers.runtime.cached import INSTANCES, CachedInstance
from transom.controllers.runtime.controller import Leadership
from transom.kube.client import FIELD_MANAGER
from transom.windows.nodes.instance import WindowsInstanceStatus


async def apply_status(
    cached: CachedInstance,
    wanted: WindowsInstanceStatus,
    leadership: Leadership,
    *,
    at_version: bool = False,
    manager: str = FIELD_MANAGER,
) -> CachedInstance:
    """Apply all that a field manager says; the instance as the server has it then.

    `at_version`: upon the version that is known alone. Raises ApiError: NotFound where it is gone, Conflict where it is
    another.
    """
    meta = cached.metadata
    metadata: dict[str, Any] = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid}
    if at_version:
        metadata["resourceVersion"] = meta.resource_version
    status = msgspec.to_builtins(wanted)
    value = {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "metadata": metadata, "status": status}
    return await leadership.client.server_side_apply(
        INSTANCES, value, meta.name, meta.namespace, subresource="status", manager=manager
    )
