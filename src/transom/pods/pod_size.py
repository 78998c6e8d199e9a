"""How large a pod may be to be patched: what is larger costs the admission server more than one pod may."""

from typing import Final

from transom.pods.pod_types import Pod

MAX_CONTAINERS: Final = 1_000
"""Each gets variables and a mount of its own, so it costs the most. A node runs a tenth of that (kubelet, `maxPods` 110)."""
MAX_ITEMS: Final = 5_000
"""Variables, `envFrom`, mounts and volumes of a pod, together."""
MAX_ANNOTATIONS: Final = 256 << 10
"""Characters of all annotations: the API server refuses pods with more bytes (apimachinery, `TotalAnnotationSizeLimitB`)."""

TOO_MANY_CONTAINERS: Final = f"it has more than {MAX_CONTAINERS:,} containers"
TOO_MANY_ITEMS: Final = f"it has more than {MAX_ITEMS:,} variables, mounts and volumes"
TOO_LONG_ANNOTATIONS: Final = f"its annotations have more than {MAX_ANNOTATIONS:,} characters"


def explain_oversized_pod(pod: Pod) -> str | None:
    """Return why a pod is too large to be patched; None where it is not. Takes time linear in the number of containers."""
    spec = pod.spec
    containers, items = 0, len(spec.volumes or ())
    for group in (spec.init_containers, spec.containers, spec.ephemeral_containers):
        if not group:
            continue
        containers += len(group)
        if containers > MAX_CONTAINERS:
            return TOO_MANY_CONTAINERS
        for container in group:
            items += len(container.env or ()) + len(container.env_from or ()) + len(container.volume_mounts or ())
    if items > MAX_ITEMS:
        return TOO_MANY_ITEMS
    annotations = pod.metadata.annotations or {}
    if sum(map(len, annotations)) + sum(map(len, annotations.values())) > MAX_ANNOTATIONS:
        return TOO_LONG_ANNOTATIONS
    return None
