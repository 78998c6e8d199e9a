"""Objects with places for values in them: `transom manifests` fills them in, and the chart's templates are printed from them.

A template is JSON data whose nodes may be `ValuePlace`, `Joined`, `Conditional`, `Merged`, `Extended`, `TextFile` and
`ItemsPlaceholder`. A string may contain `OWN`, for Transom's own namespace, and `RELEASE`, for the name of the installation.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.manifests.conditions import NotTest, Test, ValuePlace

OWN: Final = "<own>"
"""A placeholder for Transom's own namespace, which an installation sets."""
RELEASE: Final = "<release>"
"""A placeholder for the name of the installation: the release in Helm, otherwise `DEFAULT_RELEASE`."""
DEFAULT_RELEASE: Final = "transom"


class Conditional(msgspec.Struct, frozen=True):
    """An object, an item, the value of a field, or a part of a string, which exists only if a test is true."""

    test: Test
    then: Any


class ListText(msgspec.Struct, frozen=True):
    """A part of a string: the items of a value, with commas."""

    value: ValuePlace


class JoinedText(msgspec.Struct, frozen=True):
    """A string of parts: strings, values and lists, each with an optional test."""

    parts: tuple[Any, ...]


class MergedMapping(msgspec.Struct, frozen=True):
    """Fields, and with them those of a value. A field takes precedence over one of the same name in the value."""

    fields: Mapping[str, str]
    value: ValuePlace


class ExtendedMapping(msgspec.Struct, frozen=True):
    """A mapping of strings: `fields`, then the entries of `values`. The first entry of a name takes precedence."""

    fields: Mapping[str, Any]
    values: tuple[ValuePlace, ...]


class TextFile(msgspec.Struct, frozen=True):
    """A string that is the content of a file, which the chart contains at `path`."""

    path: str
    text: str


class ItemsPlaceholder(msgspec.Struct, frozen=True):
    """A placeholder in a list for the items of a value. With `named`, a string becomes an object with this name."""

    value: ValuePlace
    named: bool = False


def build_choice(test: Test, then: Any, otherwise: Any) -> tuple[Conditional, Conditional]:
    """Return two items or parts, of which one exists."""
    return Conditional(test, then), Conditional(NotTest(test), otherwise)


def resolve_template(template: Any, values: Mapping[str, Any], namespace: str) -> Any:
    """Resolve a template with values, which are those of `values.Values` as JSON data."""
    match template:
        case ValuePlace():
            return template.get_value(values)
        case JoinedText():
            return "".join(_iter_strings(template.parts, values, namespace))
        case MergedMapping():
            return {**template.value.get_value(values), **template.fields}
        case TextFile():
            return template.text
        case ExtendedMapping():
            fields = resolve_template(template.fields, values, namespace)
            others = [value.get_value(values) for value in reversed(template.values)]
            return fields | {name: text for other in others for name, text in other.items() if name not in fields}
        case str():
            return template.replace(OWN, namespace).replace(RELEASE, DEFAULT_RELEASE)
        case Mapping():
            fields = ((name, _resolve_tests(value, values)) for name, value in template.items())
            return {name: resolve_template(value, values, namespace) for name, value in fields if value is not None}
        case list() | tuple():
            return list(_iter_items(template, values, namespace))
        case _:
            return template


def _resolve_tests(node: Any, values: Mapping[str, Any]) -> Any:
    """Return the node behind its tests, or None if one of them is false."""
    while isinstance(node, Conditional):
        if not node.test.is_true(values):
            return None
        node = node.then
    return node


def _iter_items(items: Any, values: Mapping[str, Any], namespace: str) -> Iterator[Any]:
    for item in (_resolve_tests(item, values) for item in items):
        if isinstance(item, ItemsPlaceholder):
            yield from (
                {"name": entry} if item.named and isinstance(entry, str) else entry for entry in item.value.get_value(values)
            )
        elif item is not None:
            yield resolve_template(item, values, namespace)


def _iter_strings(parts: tuple[Any, ...], values: Mapping[str, Any], namespace: str) -> Iterator[str]:
    for part in (_resolve_tests(part, values) for part in parts):
        if part is None:
            continue
        yield (
            ",".join(part.value.get_value(values))
            if isinstance(part, ListText)
            else str(resolve_template(part, values, namespace))
        )
