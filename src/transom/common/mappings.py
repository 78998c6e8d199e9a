"""Values of objects as API servers and YAML files have them: nested mappings and lists."""

from collections.abc import Mapping
from typing import Any


def get_nested_value(value: Any, *path: str) -> Any:
    """Return the value at a path of mappings; None if there is none."""
    for key in path:
        # most values are None or a dict, for which the check of an abstract class takes several times as long
        if value is None:
            return None
        value = value.get(key) if isinstance(value, dict) or isinstance(value, Mapping) else None  # noqa: SIM101
    return value
