"""Objects of about 1 MiB of any kind that is followed, as somebody would make them to fill this process's memory."""

import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.controllers.clusters.values_readers import CachedApp, CachedRelease, _App, _Release
from transom.controllers.runtime.owned_objects import OwnedConfigMap, _ConfigMap
from transom.kube.objects import BundleConfigMap, UnstructuredObject, _ManagedConfigMap

SIZE: Final = 1 << 20
_READ_AS: Final[Mapping[type, type]] = {
    CachedApp: _App,
    CachedRelease: _Release,
    BundleConfigMap: _ManagedConfigMap,
    OwnedConfigMap: _ConfigMap,
}
"""What the classes that decode by themselves decode first."""
_NAMES: Final = {"name", "namespace", "uid", "resourceVersion", "kind", "apiVersion", "creationTimestamp", "deletionTimestamp"}
"""Fields that the API server keeps short."""


def build_labels(kind: type, name: str) -> bytes:
    """Return an object with 8,000 labels."""
    return _encode(name, {"labels": {f"label-{number:06}": "x" * 63 + "y" * 50 for number in range(SIZE // 130)}})


def build_annotations(kind: type, name: str) -> bytes:
    """Return an object with one long annotation and many short ones."""
    short = {f"annotation-{number:06}": "" for number in range(SIZE // 50)}
    return _encode(name, {"annotations": {"long": "x" * (SIZE // 2)} | short})


def build_managed_fields(kind: type, name: str) -> bytes:
    """Return an object that many managers have written."""
    entry = {"manager": "transom", "operation": "Apply", "fieldsV1": {"f:data": {"f:ca-bundle.crt": {}}, "f:spec": {}}}
    entries = [entry | {"time": f"2026-01-01T00:00:{number:08}Z"} for number in range(SIZE // 150)]
    return _encode(name, {"managedFields": entries})


def build_owners(kind: type, name: str) -> bytes:
    """Return an object with many owners and finalizers."""
    owners = [{"kind": "Cluster", "name": f"owner-{number}"} for number in range(SIZE // 100)]
    return _encode(
        name, {"ownerReferences": owners, "finalizers": [f"example.com/{number:08}" for number in range(SIZE // 50)]}
    )


def build_long_texts(kind: type, name: str) -> bytes:
    """Return an object with a long text in every place that is read."""
    return _fill_places(kind, name, lambda: "x" * (SIZE // 4), lambda make: [make()])


def build_wide_texts(kind: type, name: str) -> bytes:
    """Return an object whose texts are short enough for most bounds, and have one character of four bytes each (PEP 393)."""
    return _fill_places(kind, name, lambda: "x" * (SIZE // 85) + "\U0001f600", lambda make: [make()])


def build_long_lists(kind: type, name: str) -> bytes:
    """Return an object in which every list and mapping that is read is long."""
    return _fill_places(kind, name, lambda: "", lambda make: [make()] * 20_000)


def build_many_texts(kind: type, name: str) -> bytes:
    """Return an object in which every list that is read has many texts of 100 characters, no two of them equal."""
    numbers = iter(range(10**9))
    return _fill_places(kind, name, lambda: f"{next(numbers):0100}", lambda make: [make() for _ in range(1_000)])


HOSTILE_OBJECTS: Final[Mapping[str, Callable[[type, str], bytes]]] = types.MappingProxyType(
    {
        "labels": build_labels,
        "annotations": build_annotations,
        "managed-fields": build_managed_fields,
        "owners": build_owners,
        "long-texts": build_long_texts,
        "wide-texts": build_wide_texts,
        "long-lists": build_long_lists,
        "many-texts": build_many_texts,
    }
)
"""By name; each value makes the JSON of one object, of the type that it is read into and a name."""


def _encode(name: str, metadata: dict[str, Any], body: dict[str, Any] | None = None) -> bytes:
    identity = {"name": name, "namespace": "tenant", "uid": name, "resourceVersion": "7"}
    return json.dumps({"apiVersion": "v1", "kind": "Kind", **(body or {}), "metadata": {**metadata, **identity}}).encode()


def _fill_places(kind: type, name: str, text: Callable[[], str], many: Callable[[Callable[[], Any]], list[Any]]) -> bytes:
    """Return an object with such texts and lists everywhere; cut down until it has about `SIZE` bytes."""
    if kind is UnstructuredObject:
        body: dict[str, Any] = {"spec": {"list": many(text)}, "data": {"text": text()}, "status": {"list": many(dict)}}
        return _encode(name, {}, body)
    value = _fill(_READ_AS.get(kind, kind), text, many)
    metadata = value.pop("metadata", {})
    return _encode(name, metadata, value)


def _fill(kind: Any, text: Callable[[], str], many: Callable[[Callable[[], Any]], list[Any]]) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _fill(next(argument for argument in arguments if argument is not type(None)), text, many)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {wire: _fill(item, text, many) for wire, item in _fields(kind)}
    if origin in (list, tuple, set, frozenset):
        small = isinstance(arguments[0], type) and issubclass(arguments[0], msgspec.Struct)
        return many(lambda: _fill(arguments[0], (lambda: "x") if small else text, lambda make: [make()]))
    if origin is dict or kind is dict:
        return {f"key-{number}": item for number, item in enumerate(many(text))} if arguments[-1:] == (str,) else {}
    if kind is Any or kind is object:
        return many(lambda: {"text": text()})
    return {str: text, int: lambda: 1, bool: lambda: True}.get(kind, lambda: None)()


def _fields(kind: type[msgspec.Struct]) -> Iterator[tuple[str, Any]]:
    hints = typing.get_type_hints(kind)
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in _NAMES:
            yield field.encode_name, hints[field.name]
