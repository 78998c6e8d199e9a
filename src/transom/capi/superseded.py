"""What of earlier objects of a worker is not made any more, and what still uses it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from transom.capi.machines import WORKER_LABEL, Object

_USERS = ("MachineSet", "MachinePool", "Machine", "KubeadmConfig")


def replaced(made: Iterable[Object], existing: Iterable[Object]) -> Iterator[str]:
    """What of `existing` (objects of an earlier run, or of the cluster) is not made any more, and whether it is still used.

    A MachineSet, a MachinePool, a KubeadmConfig or a Machine uses what it names. Without any of them among `existing` that
    cannot be told.
    """
    existing = list(existing)
    made = list(made)
    workers = {item["metadata"].get("labels", {}).get(WORKER_LABEL) for item in made} - {None}
    current = {_identity(item) for item in made}
    users = [item for item in existing if item.get("kind") in _USERS]
    for item in existing:
        owner = (item.get("metadata", {}).get("labels") or {}).get(WORKER_LABEL)
        kind, namespace, name = _identity(item)
        if owner not in workers or (kind, namespace, name) in current or (kind in _USERS and not _is_of_a_pool(item)):
            continue
        using = next((user for user in users if _identity(user)[1] == namespace and _names(user.get("spec"), name)), None)
        if using is not None:
            yield f"{kind} {namespace}/{name} is an old one; {using['kind']} {using['metadata']['name']} still uses it: keep it"
        elif users:
            yield f"{kind} {namespace}/{name} is an old one, and nothing uses it: kubectl delete -n {namespace} {kind} {name}"
        else:
            yield f"{kind} {namespace}/{name} is an old one: delete it once no MachineSet or MachinePool names it"


def _is_of_a_pool(item: Object) -> bool:
    """Whether it is a configuration that was made here: one of a machine has that Machine as its owner."""
    owners = item.get("metadata", {}).get("ownerReferences") or ()
    return item.get("kind") == "KubeadmConfig" and not any(owner.get("kind") == "Machine" for owner in owners)


def _identity(item: Object) -> tuple[str, str, str]:
    metadata = item.get("metadata", {})
    return item.get("kind", ""), metadata.get("namespace", ""), metadata.get("name", "")


def _names(value: Any, name: str) -> bool:
    """Whether a text below `value` is `name`."""
    if isinstance(value, Mapping):
        return any(_names(item, name) for item in value.values())
    if isinstance(value, list):
        return any(_names(item, name) for item in value)
    return bool(value == name)
