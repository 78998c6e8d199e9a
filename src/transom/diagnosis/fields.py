"""How the fields of an object in plain values are looked at, whatever is in them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def meta(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """`metadata`."""
    return mapping(value, "metadata")


def name_of(value: Mapping[str, Any]) -> str:
    """`metadata.name`."""
    return str(meta(value).get("name") or "")


def namespace_of(value: Mapping[str, Any]) -> str | None:
    """`metadata.namespace`."""
    namespace = meta(value).get("namespace")
    return None if namespace is None else str(namespace)


def labels_of(value: Mapping[str, Any]) -> dict[str, str]:
    """`metadata.labels`."""
    return {str(name): str(text) for name, text in mapping(value, "metadata", "labels").items()}


def label_of(kind: str, value: Mapping[str, Any]) -> str:
    """`Kind/name` or `Kind/namespace/name`."""
    return "/".join(filter(None, (kind, namespace_of(value), name_of(value))))


def at(value: Any, *path: str) -> Any:
    """What stands at a path of mappings; None where nothing does."""
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """The mapping at a path; an empty one where there is none."""
    found = at(value, *path)
    return found if isinstance(found, Mapping) else {}


def items(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """The mappings of a list at a path."""
    found = at(value, *path)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []


def conditions(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """`status.conditions`."""
    return items(value, "status", "conditions")


def condition(value: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """A condition; an empty one where it is not there."""
    return next((one for one in conditions(value) if one.get("type") == type_), {})


def moment(text: Any) -> datetime | None:
    """A time of an object (RFC 3339); None for what says none."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def age(now: datetime, then: datetime | None) -> str:
    """How long ago, as kubectl says it: `12s`, `5m`, `3h`, `4d`; empty where that is not known."""
    if then is None:
        return ""
    seconds = max(0, int((now - then).total_seconds()))
    for unit, least, size in (("d", 172_800, 86_400), ("h", 7_200, 3_600), ("m", 120, 60)):
        if seconds >= least:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
