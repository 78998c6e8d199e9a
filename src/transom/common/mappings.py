"""Values of objects as API servers and YAML files have them: nested mappings and lists."""

from collections.abc import Mapping
from typing import Any


def get_at(value: Any, *path: str) -> Any:
    """Return the value at a path of mappings; None if there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
