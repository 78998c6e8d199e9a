"""Pods that are older than the settings, counted by who made them: their environment stays as it is until they are replaced."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from transom.pods.environment import PodEgress
from transom.pods.patch import SETTINGS_HASH, patch
from transom.pods.pod import Pod

_TEMPLATE_HASH: Final = "pod-template-hash"
"""The label by which a Deployment's ReplicaSets and their pods are told apart: the end of the ReplicaSet's name."""
_RESTARTED: Final = {"Deployment": "deployment", "StatefulSet": "statefulset", "DaemonSet": "daemonset"}


class Outdated(msgspec.Struct, frozen=True, order=True):
    """What made pods that are older than the settings: `outdated` of its `pods`. `restart` is the command to replace them."""

    namespace: str
    kind: str
    name: str
    pods: int
    outdated: int
    restart: str | None = None


def is_outdated(pod: Pod, labels: Mapping[str, str], egress: PodEgress) -> bool:
    """Whether a pod that runs (in a namespace with these labels) would get something else today."""
    if pod.finished:
        return False
    present = pod.metadata.annotation(SETTINGS_HASH)
    if present is not None:
        return present != egress.digest
    names = {name for pair in egress.pairs for name in (pair.name, pair.twin)}
    made = patch(pod, pod.metadata.namespace or "", labels, egress)
    return any(name in names for given in made.given for name in given.added)


def outdated(pods: Iterable[Pod], namespaces: Mapping[str, Mapping[str, str]], egress: PodEgress) -> list[Outdated]:
    """Those that have any, by namespace, kind and name. `namespaces` are labels by name."""
    counts: dict[tuple[str, str, str], list[int]] = {}
    for pod in pods:
        if pod.finished:
            continue
        count = counts.setdefault(_owner(pod), [0, 0])
        count[0] += 1
        count[1] += is_outdated(pod, namespaces.get(pod.metadata.namespace or "", {}), egress)
    return sorted(
        Outdated(namespace, kind, name, total, old, _restart(namespace, kind, name))
        for (namespace, kind, name), (total, old) in counts.items()
        if old
    )


def _owner(pod: Pod) -> tuple[str, str, str]:
    meta = pod.metadata
    namespace = meta.namespace or ""
    owner = next((one for one in meta.owner_references or () if one.controller), None)
    if owner is None:
        return namespace, "Pod", meta.name
    suffix = meta.label(_TEMPLATE_HASH)
    if owner.kind == "ReplicaSet" and suffix and owner.name.endswith(f"-{suffix}"):
        return namespace, "Deployment", owner.name.removesuffix(f"-{suffix}")
    return namespace, owner.kind, owner.name


def _restart(namespace: str, kind: str, name: str) -> str | None:
    resource = _RESTARTED.get(kind)
    return f"kubectl rollout restart {resource}/{name} -n {namespace}" if resource else None
