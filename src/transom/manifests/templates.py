"""Objects with places for values in them: `transom manifests` fills them in, and the chart's templates are printed from them.

A template is JSON data whose nodes may be `ValuePlace`, `Joined`, `Conditional`, `Merged` and `Spread`. A text may have `OWN`
in it, for Transom's own namespace.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from transom.manifests.conditions import No, Test, ValuePlace

OWN: Final = "<own>"
"""Stands for Transom's own namespace, which an install names."""


class Conditional(msgspec.Struct, frozen=True):
    """Something that is there where a test holds: an object, an item, the value of a field, or a part of a text."""

    test: Test
    then: Any


class Listed(msgspec.Struct, frozen=True):
    """Part of a text: the items of a value, with commas."""

    value: ValuePlace


class Joined(msgspec.Struct, frozen=True):
    """A text of parts: texts, values, lists, and each of them where a test holds."""

    parts: tuple[Any, ...]


class Merged(msgspec.Struct, frozen=True):
    """Fields, and with them those of a value."""

    fields: Mapping[str, str]
    value: ValuePlace


class Spread(msgspec.Struct, frozen=True):
    """Stands in a list for the items of a value."""

    value: ValuePlace


def choice(test: Test, then: Any, otherwise: Any) -> tuple[Conditional, Conditional]:
    """Two items or parts, of which one is there."""
    return Conditional(test, then), Conditional(No(test), otherwise)


def resolved(template: Any, values: Mapping[str, Any], namespace: str) -> Any:
    """A template with these values in it, which are those of `values.Values` as JSON data."""
    match template:
        case ValuePlace():
            return template.of(values)
        case Joined():
            return "".join(_texts(template.parts, values, namespace))
        case Merged():
            return {**template.fields, **template.value.of(values)}
        case str():
            return template.replace(OWN, namespace)
        case Mapping():
            fields = ((name, _held(value, values)) for name, value in template.items())
            return {name: resolved(value, values, namespace) for name, value in fields if value is not None}
        case list() | tuple():
            return list(_items(template, values, namespace))
        case _:
            return template


def _held(node: Any, values: Mapping[str, Any]) -> Any:
    """What is behind a test, or None; a test may stand behind another."""
    while isinstance(node, Conditional):
        if not node.test.holds(values):
            return None
        node = node.then
    return node


def _items(items: Any, values: Mapping[str, Any], namespace: str) -> Iterator[Any]:
    for item in (_held(item, values) for item in items):
        if isinstance(item, Spread):
            yield from item.value.of(values)
        elif item is not None:
            yield resolved(item, values, namespace)


def _texts(parts: tuple[Any, ...], values: Mapping[str, Any], namespace: str) -> Iterator[str]:
    for part in (_held(part, values) for part in parts):
        if part is None:
            continue
        yield ",".join(part.value.of(values)) if isinstance(part, Listed) else resolved(part, values, namespace)
