"""Transom's objects, written by server-side apply, and only if something differs.

The object itself says whether it differs: each desired field must have its value, and each field of Transom's manager (by
`managedFields`) must be desired. So nothing is remembered between two runs.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.kube.client import FIELD_MANAGER, Client
from transom.kube.errors import NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import Resource

Step = tuple[str, str]
"""A step of a path in managedFields (structured-merge-diff, fieldpath): `f` and a name, `k` and a key, `v` and a value."""
_IDENTITY: Final = frozenset({"apiVersion", "kind"})
_SERVERS: Final = frozenset({"name", "namespace", "resourceVersion", "uid", "generation", "creationTimestamp", "managedFields"})
_LIST_KEYS: Final = (("type",), ("name",), ("uid",), ("key",))
"""What may be the key of an associative list in the objects that Transom writes."""


def needs_apply(desired: Mapping[str, Any], live: Mapping[str, Any] | None, subresource: str | None = None) -> bool:
    """Return True if applying `desired` would change `live`, as field manager `transom` (of that subresource)."""
    if live is None:
        return True
    wanted = _strip_identity(desired)
    if not _has_desired_values(wanted, live):
        return True
    owned = _find_owned_fields(live, subresource)
    if owned is None:
        return bool(wanted)
    return any(not _has_path(path, desired) for path in _iter_leaves(owned))


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
        whole = Resource(
            resource.group, resource.version, resource.kind, resource.plural, resource.namespaced, UnstructuredObject
        )
        try:
            live = (await client.get(whole, name, namespace)).value
        except NotFound:
            live = None
    if not needs_apply(desired, live, subresource):
        return False
    value = {"apiVersion": resource.api_version, "kind": resource.kind, **desired}
    await client.apply(resource, value, name, namespace, subresource=subresource, force=force)
    return True


def _strip_identity(desired: Mapping[str, Any]) -> dict[str, Any]:
    """Return `desired` without the fields that identify the object."""
    metadata = {key: value for key, value in desired.get("metadata", {}).items() if key not in _SERVERS}
    rest = {key: value for key, value in desired.items() if key not in _IDENTITY and key != "metadata"}
    return {"metadata": metadata} | rest if metadata else rest


def _has_desired_values(wanted: Any, live: Any) -> bool:
    """Return True if `live` has all wanted values; lists of objects with a key are compared item by item."""
    if isinstance(wanted, Mapping):
        if not wanted:
            return live is not None
        return isinstance(live, Mapping) and all(
            # Go leaves out what is empty (omitempty), in the kinds that are built in
            _has_desired_values(value, live[key]) if key in live else value in ("", [], {})
            for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        if not isinstance(live, list):
            return False
        if wanted and (key := _find_list_key(wanted)) is not None:
            live_items = {_build_item_key(item, key): item for item in live if isinstance(item, Mapping)}
            return all(
                (live_item := live_items.get(_build_item_key(item, key))) is not None and _has_desired_values(item, live_item)
                for item in wanted
            )
        return len(wanted) == len(live) and all(
            _has_desired_values(item, other) for item, other in zip(wanted, live, strict=True)
        )
    return bool(wanted == live) and isinstance(wanted, bool) == isinstance(live, bool)


def _find_list_key(items: list[Any] | tuple[Any, ...]) -> tuple[str, ...] | None:
    if not all(isinstance(item, Mapping) for item in items):
        return None
    return next((key for key in _LIST_KEYS if all(all(part in item for part in key) for item in items)), None)


def _build_item_key(item: Mapping[str, Any], key: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(item.get(part) for part in key)


def _find_owned_fields(live: Mapping[str, Any], subresource: str | None) -> dict[str, Any] | None:
    """Return the fields (FieldsV1) that Transom applied, or None if it never did."""
    for entry in live.get("metadata", {}).get("managedFields") or ():
        ours = entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"
        if ours and (entry.get("subresource") or None) == subresource:
            return entry.get("fieldsV1") or {}
    return None


def _iter_leaves(fields: Mapping[str, Any], path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    for key, below in fields.items():
        if key == ".":
            continue
        step = (key[0], key[2:])
        if below and set(below) != {"."}:
            yield from _iter_leaves(below, (*path, step))
        else:
            yield (*path, step)


def _has_path(path: tuple[Step, ...], value: Any) -> bool:
    """Return True if `value` has something at a path."""
    for kind, name in path:
        if kind == "f":
            if not isinstance(value, Mapping) or name not in value:
                return False
            value = value[name]
        elif kind == "k":
            key = msgspec.json.decode(name)
            if not isinstance(value, list | tuple):
                return False
            matches = [item for item in value if isinstance(item, Mapping) and all(item.get(k) == v for k, v in key.items())]
            if not matches:
                return False
            value = matches[0]
        elif kind == "v":
            return isinstance(value, list | tuple) and msgspec.json.decode(name) in value
        else:
            return False
    return True
