"""A component of kustomize that moves the base into another namespace, without the Roles of other namespaces.

The field `namespace` of an overlay would move these as well (kustomize, "namespace": it applies to every namespaced object).
The component replaces each place that names Transom's namespace (kubectl.docs.kubernetes.io, "replacements").
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

SOURCE: Final = "transom-namespace"
"""The ConfigMap whose field `namespace` names the namespace."""
_DELIMITERS: Final = ("=", ":", "'", ".", "/", ",")


class PlaceUnknown(ValueError):
    """A string contains the namespace in a way that no replacement can name."""


def build_namespace_component(objects: Iterable[Mapping[str, Any]], namespace: str) -> dict[str, Any]:
    """Return the component for the objects of a base in a namespace. Raises PlaceUnknown."""
    last: list[dict[str, Any]] = []
    targets: list[dict[str, Any]] = []
    for obj in objects:
        metadata = obj["metadata"]
        # an object is selected by its namespace as well, so that this changes last
        select = {"kind": obj["kind"], "name": metadata["name"]}
        if "namespace" in metadata:
            select["namespace"] = metadata["namespace"]
        for path, text in _iter_strings(obj, ()):
            for options in _iter_replacement_options(path, text, namespace):
                target = {"select": select, "fieldPaths": [".".join(path)]} | ({"options": options} if options else {})
                (last if path[0] == "metadata" else targets).append(target)
    source = {"kind": "ConfigMap", "name": SOURCE, "fieldPath": "data.namespace"}
    return {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "replacements": [{"source": source, "targets": [*targets, *last]}],
    }


def _iter_strings(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    match node:
        case str():
            yield path, node
        case Mapping():
            for name, value in node.items():
                yield from _iter_strings(value, (*path, name.replace(".", "\\.")))
        case list():
            for number, value in enumerate(node):
                yield from _iter_strings(value, (*path, str(number)))


def _iter_replacement_options(path: tuple[str, ...], text: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Yield the options of each replacement in a string: none for the whole, otherwise a delimiter and an index."""
    wanted = text.count(namespace)
    if not wanted or text == namespace:
        yield from [{}] * wanted
        return
    for delimiter in _DELIMITERS:
        indexes = [number for number, part in enumerate(text.split(delimiter)) if part == namespace]
        if len(indexes) == wanted:
            yield from ({"delimiter": delimiter, "index": number} for number in indexes)
            return
    raise PlaceUnknown(f"{'.'.join(path)}: {text}")
