"""Names of services, files and registry keys, which Windows compares without case."""

from collections.abc import Container, Iterable, Iterator, Mapping, MutableMapping
from typing import TypeVar

_V = TypeVar("_V")


class FoldedDict(MutableMapping[str, _V]):
    """Values by name, compared without case. Names keep the spelling and order of their last assignment."""

    __slots__ = ("_named",)

    def __init__(self, named: Mapping[str, _V] | Iterable[tuple[str, _V]] = ()) -> None:
        items = named.items() if isinstance(named, Mapping) else named
        self._named = {name.casefold(): (name, value) for name, value in items}

    @classmethod
    def from_names(cls, names: Iterable[str]) -> "FoldedDict[None]":
        """Return a dict with only the names, to test for membership."""
        return FoldedDict((name, None) for name in names)

    def __getitem__(self, name: str) -> _V:
        return self._named[name.casefold()][1]

    def __setitem__(self, name: str, value: _V) -> None:
        self._named.pop(name.casefold(), None)
        self._named[name.casefold()] = name, value

    def __delitem__(self, name: str) -> None:
        del self._named[name.casefold()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.casefold() in self._named

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._named.values())

    def __len__(self) -> int:
        return len(self._named)

    def __repr__(self) -> str:
        return f"FoldedDict({list(self)})"


def is_same(first: str, other: str) -> bool:
    """Return True if two names, or two paths, are equal without case."""
    return first.casefold() == other.casefold()


def is_within(path: str, above: str) -> bool:
    """Return True if a path is `above`, or is below it."""
    return (path.casefold() + "\\").startswith(above.casefold() + "\\")


def is_within_any(path: str, directories: Container[str]) -> bool:
    """Return True if a path is one of many directories (a `FoldedDict`), or is below one."""
    while path:
        if path in directories:
            return True
        path = path.rpartition("\\")[0]
    return False


def is_listed(name: str, names: Iterable[str]) -> bool:
    """Return True if a name is among others, compared without case."""
    return name.casefold() in (other.casefold() for other in names)


def remove_duplicates(names: Iterable[str]) -> tuple[str, ...]:
    """Remove duplicate names; order and first spelling are kept."""
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(name.casefold(), name)
    return tuple(first.values())


def without_names(names: Iterable[str], excluded: Iterable[str]) -> tuple[str, ...]:
    """Return those of `names` that are not in `excluded`."""
    excluded_names = FoldedDict.from_names(excluded)
    return tuple(name for name in names if name not in excluded_names)
