"""Variables in the texts of a payload: `${NAME}`, and JSONPath into a Node.

The JSONPath is the part of kubectl's that names one place (Kubernetes: "JSONPath Support"): `{.metadata.annotations.a\\.b/c}`,
`{.status.addresses[0].address}`, `{.metadata.annotations['a.b/c']}`.
"""

import re
from collections.abc import Mapping
from typing import Any

_USE = re.compile(r"\$\{([A-Za-z0-9_]+)\}")
_STEP = re.compile(r"\.((?:\\.|[^.\[\]\\{}'\"\s])+)|\[([0-9]+)\]|\['((?:\\.|[^'\\])+)'\]")


class InvalidPath(Exception):
    """A JSONPath that is not read; the message says where."""


class UnknownVariable(Exception):
    """A variable has no value yet; `name` is its name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def parse_variable_names(text: str) -> set[str]:
    """Return the variables that a string uses."""
    return set(_USE.findall(text))


def substitute(text: str, values: Mapping[str, str]) -> str:
    """Substitute the variables in a string, once: variables in values are not expanded. Raises Unknown."""

    def get_value(use: re.Match[str]) -> str:
        if use[1] not in values:
            raise UnknownVariable(use[1])
        return values[use[1]]

    return _USE.sub(get_value, text)


def parse_json_path(text: str) -> tuple[str | int, ...]:
    """Parse a JSONPath into its steps. Raises InvalidPath."""
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    steps: list[str | int] = []
    position = 0
    while position < len(inner):
        step = _STEP.match(inner, position)
        if step is None:
            raise InvalidPath(
                f"is not a JSONPath to a single value from character {position + 1} on: use {{.metadata.annotations.name}}"
            )
        key = step[1] or step[3]
        steps.append(int(step[2]) if step[2] else re.sub(r"\\(.)", r"\1", key))
        position = step.end()
    if not steps:
        raise InvalidPath("is empty: write {.metadata.annotations.name}")
    return tuple(steps)


def find_value(value: Any, path: tuple[str | int, ...]) -> str | None:
    """Return the string or number at a path as a string; None if it is missing or not a single value."""
    for step in path:
        if isinstance(value, Mapping) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list | tuple) and isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) and value != "" else None
