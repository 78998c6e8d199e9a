"""Objects of ours, written by server-side apply, and only when something differs.

The object itself says whether it differs: each field that is wanted has to have its value, and every field of ours (by
`managedFields`) has to be wanted. So nothing is remembered between two runs.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.kube import NotFound
from transom.kube.client import FIELD_MANAGER, Client
from transom.kube.objects import Whole
from transom.kube.resources import Resource

Step = tuple[str, str]
"""A step of a path in managedFields (structured-merge-diff, fieldpath): `f` and a name, `k` and a key, `v` and a value."""
_IDENTITY: Final = frozenset({"apiVersion", "kind"})
_SERVERS: Final = frozenset({"name", "namespace", "resourceVersion", "uid", "generation", "creationTimestamp", "managedFields"})
_LIST_KEYS: Final = (("type",), ("name",), ("uid",), ("key",))
"""What may be the key of an associative list in the objects that Transom writes."""


def differs(desired: Mapping[str, Any], live: Mapping[str, Any] | None, subresource: str | None = None) -> bool:
    """Whether applying `desired` would change `live`, as field manager `transom` (of that subresource)."""
    if live is None:
        return True
    wanted = _wanted(desired)
    if not _holds(wanted, live):
        return True
    owned = _owned(live, subresource)
    if owned is None:
        return bool(wanted)
    return any(not _present(path, desired) for path in _leaves(owned))


async def apply(
    client: Client,
    resource: Resource[Any],
    desired: Mapping[str, Any],
    *,
    live: Mapping[str, Any] | None = None,
    subresource: str | None = None,
    force: bool = True,
) -> bool:
    """Apply `desired` where it differs; whether it did. `live` is what a store has of it; without, it is read.

    Raises ApiError; Conflict without `force` where a field is another manager's.
    """
    name = desired["metadata"]["name"]
    namespace = desired["metadata"].get("namespace")
    if live is None:
        whole = Resource(resource.group, resource.version, resource.kind, resource.plural, resource.namespaced, Whole)
        try:
            live = (await client.get(whole, name, namespace)).value
        except NotFound:
            live = None
    if not differs(desired, live, subresource):
        return False
    value = {"apiVersion": resource.api_version, "kind": resource.kind, **desired}
    await client.server_side_apply(resource, value, name, namespace, subresource=subresource, force=force)
    return True


def _wanted(desired: Mapping[str, Any]) -> dict[str, Any]:
    """`desired` without what names the object."""
    metadata = {key: value for key, value in desired.get("metadata", {}).items() if key not in _SERVERS}
    rest = {key: value for key, value in desired.items() if key not in _IDENTITY and key != "metadata"}
    return {"metadata": metadata} | rest if metadata else rest


def _holds(wanted: Any, live: Any) -> bool:
    """Whether everything that is wanted is there. Lists of objects with a key are compared item by item, others as they are."""
    if isinstance(wanted, Mapping):
        if not wanted:
            return live is not None
        return isinstance(live, Mapping) and all(
            # Go leaves out what is empty (omitempty), in the kinds that are built in
            _holds(value, live[key]) if key in live else value in ("", [], {})
            for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        if not isinstance(live, list):
            return False
        if wanted and (key := _key_of(wanted)) is not None:
            there = {_item_key(item, key): item for item in live if isinstance(item, Mapping)}
            return all((found := there.get(_item_key(item, key))) is not None and _holds(item, found) for item in wanted)
        return len(wanted) == len(live) and all(_holds(one, other) for one, other in zip(wanted, live, strict=True))
    return bool(wanted == live) and isinstance(wanted, bool) == isinstance(live, bool)


def _key_of(items: list[Any] | tuple[Any, ...]) -> tuple[str, ...] | None:
    if not all(isinstance(item, Mapping) for item in items):
        return None
    return next((key for key in _LIST_KEYS if all(all(part in item for part in key) for item in items)), None)


def _item_key(item: Mapping[str, Any], key: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(item.get(part) for part in key)


def _owned(live: Mapping[str, Any], subresource: str | None) -> dict[str, Any] | None:
    """The fields (FieldsV1) that we applied, or None where we never did."""
    for entry in live.get("metadata", {}).get("managedFields") or ():
        ours = entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"
        if ours and (entry.get("subresource") or None) == subresource:
            return entry.get("fieldsV1") or {}
    return None


def _leaves(fields: Mapping[str, Any], path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    for key, below in fields.items():
        if key == ".":
            continue
        step = (key[0], key[2:])
        if below and set(below) != {"."}:
            yield from _leaves(below, (*path, step))
        else:
            yield (*path, step)


def _present(path: tuple[Step, ...], value: Any) -> bool:
    """Whether `value` has something at a path."""
    for kind, name in path:
        if kind == "f":
            if not isinstance(value, Mapping) or name not in value:
                return False
            value = value[name]
        elif kind == "k":
            key = msgspec.json.decode(name)
            if not isinstance(value, list | tuple):
                return False
            found = [item for item in value if isinstance(item, Mapping) and all(item.get(k) == v for k, v in key.items())]
            if not found:
                return False
            value = found[0]
        elif kind == "v":
            return isinstance(value, list | tuple) and msgspec.json.decode(name) in value
        else:
            return False
    return True
