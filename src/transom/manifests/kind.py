"""What a custom resource is made of besides its struct."""

from typing import Any, Final

import msgspec

from transom.manifests.schema import Rules
from transom.proxy.status import Status

NAME: Final = {"minLength": 1, "maxLength": 253}
"""Limits of an object's name."""


class Kind(msgspec.Struct, frozen=True):
    """One custom resource: its names, the structs of its spec and status with rules by path, and checks of the whole."""

    kind: str
    plural: str
    singular: str
    short_name: str
    scope: str
    description: str
    spec: type[msgspec.Struct]
    rules: dict[str, Rules]
    checks: tuple[dict[str, str], ...]
    status: type[Status]
    columns: tuple[dict[str, Any], ...]
    spec_required: bool


def text(description: str, **more: Any) -> dict[str, Any]:
    """The schema of a string."""
    return {"description": description, "type": "string"} | more


def column(name: str, path: str, type_: str = "string", priority: int = 0) -> dict[str, Any]:
    """A column of `kubectl get`; with a priority above 0 of `-o wide` alone."""
    return {"name": name, "type": type_, "jsonPath": path} | ({"priority": priority} if priority else {})


def condition_column(name: str, condition: str, priority: int = 0) -> dict[str, Any]:
    """A column with the status of a condition."""
    return column(name, f'.status.conditions[?(@.type=="{condition}")].status', priority=priority)


AGE: Final = column("Age", ".metadata.creationTimestamp", "date")
