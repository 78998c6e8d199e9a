"""Objects that are nested as deep as Kubernetes takes."""

import json
from typing import Any, Final

from lab.control_plane import ControlPlane

from transom.kube.resources import Resource

DEEP: Final = "NESTED"
"""Stands in an object for what is nested."""


def deep_text(value: dict[str, Any], levels: int = 9_000) -> bytes:
    """An object as JSON. Python's encoder makes no such text."""
    return json.dumps(value).replace(f'"{DEEP}"', '{"a":' * levels + "1" + "}" * levels).encode()


def post_deep(control_plane: ControlPlane, value: dict[str, Any], resource: Resource[Any], levels: int = 9_000) -> None:
    """Make an object as the administrator."""
    control_plane.request("POST", resource.build_path(value["metadata"].get("namespace")), deep_text(value, levels), 120)
