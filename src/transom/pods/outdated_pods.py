"""Pods that are older than the settings, counted by owner: their environment is unchanged until they are replaced."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from transom.pods.environment import PodEgress
from transom.pods.patch import SETTINGS_HASH, build_patch
from transom.pods.pod_types import Pod

_TEMPLATE_HASH: Final = "pod-template-hash"
"""The label that distinguishes a Deployment's ReplicaSets and their pods: the end of the ReplicaSet's name."""
_KUBE_PROXY: Final = ("kube-system", "DaemonSet", "kube-proxy")
"""What kubeadm gives the proxy variables of its own environment (cmd/kubeadm/app/phases/addons/proxy/proxy.go), at init."""
_URLS: Final = ("HTTP_PROXY", "HTTPS_PROXY")
_FREED: Final = "kubectl -n kube-system set env daemonset/kube-proxy " + " ".join(
    f"{name}-" for upper in (*_URLS, "NO_PROXY") for name in (upper, upper.lower())
)
"""It talks to the API server alone, so it needs none of them; another start of its pods would change nothing."""
_RESTARTED: Final = {"Deployment": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}


class OutdatedWorkload(msgspec.Struct, frozen=True, order=True):
    """What made pods that are older than the settings: `outdated` of its `pods`. `restart` is the command to replace them."""

    namespace: str
    kind: str
    name: str
    pods: int
    outdated: int
    restart: str | None = None


def is_outdated(pod: Pod, labels: Mapping[str, str], egress: PodEgress) -> bool:
    """Return True if a running pod (in a namespace with these labels) would get something else today."""
    if pod.finished:
        return False
    present = pod.metadata.get_annotation(SETTINGS_HASH)
    if present is not None:
        return present != egress.digest
    names = {name for pair in egress.pairs for name in (pair.name, pair.twin)}
    made = build_patch(pod, pod.metadata.namespace or "", labels, egress)
    return any(name in names for item in made.given for name in item.added)


def find_outdated(
    pods: Iterable[Pod],
    namespaces: Mapping[str, Mapping[str, str]],
    egress: PodEgress,
    variables: Mapping[str, str] | None = None,
) -> list[OutdatedWorkload]:
    """Those that have any, by namespace, kind and name. `namespaces` are labels by name.

    `variables` are what kubeadm would copy into kube-proxy now, None where that is not known.
    """
    counts: dict[tuple[str, str, str], list[int]] = {}
    for pod in pods:
        if pod.finished:
            continue
        owner = find_owner(pod)
        count = counts.setdefault(owner, [0, 0])
        count[0] += 1
        if owner == _KUBE_PROXY:
            count[1] += variables is not None and _has_different_proxy(pod, variables)
        else:
            count[1] += is_outdated(pod, namespaces.get(pod.metadata.namespace or "", {}), egress)
    return sorted(
        OutdatedWorkload(namespace, kind, name, total, old, _format_restart_command(namespace, kind, name))
        for (namespace, kind, name), (total, old) in counts.items()
        if old
    )


def _has_different_proxy(pod: Pod, variables: Mapping[str, str]) -> bool:
    """Return True if the proxy differs; the list's part may, since it is that of the cluster's creation."""
    variables_set = (item for container in pod.spec.containers or () for item in container.env or ())
    return any(
        item.name.upper() in _URLS and (item.value or "") != variables.get(item.name.upper(), "") for item in variables_set
    )


def find_owner(pod: Pod) -> tuple[str, str, str]:
    """Namespace, kind and name of who made a pod: of a Deployment, not of its ReplicaSet."""
    meta = pod.metadata
    namespace = meta.namespace or ""
    owner = next((owner_reference for owner_reference in meta.owner_references or () if owner_reference.controller), None)
    if owner is None:
        return namespace, "Pod", meta.name
    suffix = meta.get_label(_TEMPLATE_HASH)
    if owner.kind == "ReplicaSet" and suffix and owner.name.endswith(f"-{suffix}"):
        return namespace, "Deployment", owner.name.removesuffix(f"-{suffix}")
    return namespace, owner.kind, owner.name


def _format_restart_command(namespace: str, kind: str, name: str) -> str | None:
    if (namespace, kind, name) == _KUBE_PROXY:
        return _FREED
    resource = _RESTARTED.get(kind)
    return f"kubectl rollout restart {resource}/{name} -n {namespace}" if resource else None
