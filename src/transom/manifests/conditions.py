"""Values of an install, by their places, and tests of them: what a part of a template depends on."""

from collections.abc import Mapping
from typing import Any

import msgspec


class ValuePlace(msgspec.Struct, frozen=True):
    """A value of an install, by its place: `operator.replicas`."""

    path: str

    @property
    def names(self) -> tuple[str, ...]:
        """The fields on the way to it."""
        return tuple(self.path.split("."))

    def of(self, values: Mapping[str, Any]) -> Any:
        """What it is in these values."""
        found: Any = values
        for name in self.names:
            found = found[name]
        return found


class IsGiven(msgspec.Struct, frozen=True):
    """A value is there: neither false nor empty."""

    value: ValuePlace

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it is."""
        return bool(self.value.of(values))


class Is(msgspec.Struct, frozen=True):
    """A value is this one."""

    value: ValuePlace
    text: str

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it is."""
        return bool(self.value.of(values) == self.text)


class AnyOf(msgspec.Struct, frozen=True):
    """A list has one of these names."""

    value: ValuePlace
    names: tuple[str, ...]

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it has."""
        return any(name in self.names for name in self.value.of(values))


class Either(msgspec.Struct, frozen=True):
    """One of several tests holds."""

    tests: "tuple[Test, ...]"

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether one does."""
        return any(test.holds(values) for test in self.tests)


class Both(msgspec.Struct, frozen=True):
    """All of several tests hold."""

    tests: "tuple[Test, ...]"

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether all do."""
        return all(test.holds(values) for test in self.tests)


class No(msgspec.Struct, frozen=True):
    """A test does not hold."""

    test: "Test"

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it does not."""
        return not self.test.holds(values)


Test = IsGiven | Is | AnyOf | Either | Both | No
