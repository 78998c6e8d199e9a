"""How the fields of an object in plain values are looked at, whatever is in them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from transom.common.mappings import get_nested_value


def get_metadata(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `metadata`."""
    return get_mapping(value, "metadata")


def get_name(value: Mapping[str, Any]) -> str:
    """Return `metadata.name`."""
    return str(get_metadata(value).get("name") or "")


def get_namespace(value: Mapping[str, Any]) -> str | None:
    """Return `metadata.namespace`."""
    namespace = get_metadata(value).get("namespace")
    return None if namespace is None else str(namespace)


def get_labels(value: Mapping[str, Any]) -> dict[str, str]:
    """Return `metadata.labels`."""
    return {str(name): str(text) for name, text in get_mapping(value, "metadata", "labels").items()}


def format_label(kind: str, value: Mapping[str, Any]) -> str:
    """`Kind/name` or `Kind/namespace/name`."""
    return "/".join(filter(None, (kind, get_namespace(value), get_name(value))))


def get_mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path; an empty one if there is none."""
    field = get_nested_value(value, *path)
    return field if isinstance(field, Mapping) else {}


def get_items(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the mappings of a list at a path."""
    field = get_nested_value(value, *path)
    return [item for item in field if isinstance(item, Mapping)] if isinstance(field, list | tuple) else []


def get_conditions(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return `status.conditions`."""
    return get_items(value, "status", "conditions")


def get_condition(value: Mapping[str, Any], type_: str) -> Mapping[str, Any]:
    """Return a condition; an empty one if it does not exist."""
    return next((item for item in get_conditions(value) if item.get("type") == type_), {})


def format_age(now: datetime, then: datetime | None) -> str:
    """Format the age as kubectl does: `12s`, `5m`, `3h`, `4d`; empty if it is unknown."""
    if then is None:
        return ""
    seconds = max(0, int((now - then).total_seconds()))
    for unit, least, size in (("d", 172_800, 86_400), ("h", 7_200, 3_600), ("m", 120, 60)):
        if seconds >= least:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
