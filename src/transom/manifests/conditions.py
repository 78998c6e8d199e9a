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

    def get_value(self, values: Mapping[str, Any]) -> Any:
        """Return the value at this place."""
        result: Any = values
        for name in self.names:
            result = result[name]
        return result


class IsSet(msgspec.Struct, frozen=True):
    """A value is set: neither false nor empty."""

    value: ValuePlace

    def is_true(self, values: Mapping[str, Any]) -> bool:
        """Return True if the value is set."""
        return bool(self.value.get_value(values))


class EqualsValue(msgspec.Struct, frozen=True):
    """A value is this one."""

    value: ValuePlace
    text: str | int

    def is_true(self, values: Mapping[str, Any]) -> bool:
        """Return True if the value equals the string."""
        return bool(self.value.get_value(values) == self.text)


class HasAnyOf(msgspec.Struct, frozen=True):
    """A list has one of these names."""

    value: ValuePlace
    names: tuple[str, ...]

    def is_true(self, values: Mapping[str, Any]) -> bool:
        """Return True if the list has one of the names."""
        return any(name in self.names for name in self.value.get_value(values))


class AnyTest(msgspec.Struct, frozen=True):
    """One of several tests holds."""

    tests: "tuple[Test, ...]"

    def is_true(self, values: Mapping[str, Any]) -> bool:
        """Return True if one of the tests is true."""
        return any(test.is_true(values) for test in self.tests)


class AllTests(msgspec.Struct, frozen=True):
    """All of several tests hold."""

    tests: "tuple[Test, ...]"

    def is_true(self, values: Mapping[str, Any]) -> bool:
        """Return True if all tests are true."""
        return all(test.is_true(values) for test in self.tests)


class NotTest(msgspec.Struct, frozen=True):
    """A test does not hold."""

    test: "Test"

    def is_true(self, values: Mapping[str, Any]) -> bool:
        """Return True if the test is false."""
        return not self.test.is_true(values)


Test = IsSet | EqualsValue | HasAnyOf | AnyTest | AllTests | NotTest
