"""Names of services, files and registry keys, which Windows compares without case."""

from collections.abc import Container, Iterable, Iterator, Mapping, MutableMapping
from typing import TypeVar

_V = TypeVar("_V")


class FoldedDict(MutableMapping[str, _V]):
    """Values by name, compared without case. A name is spelled as it was when it was last set, and stands in that order."""

    __slots__ = ("_named",)

    def __init__(self, named: Mapping[str, _V] | Iterable[tuple[str, _V]] = ()) -> None:
        items = named.items() if isinstance(named, Mapping) else named
        self._named = {name.casefold(): (name, value) for name, value in items}

    @classmethod
    def of(cls, names: Iterable[str]) -> "FoldedDict[None]":
        """The names alone: `in` says whether one is among them."""
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


def same(one: str, other: str) -> bool:
    """Whether two names, or two paths, are one."""
    return one.casefold() == other.casefold()


def within(path: str, above: str) -> bool:
    """Whether a path is `above`, or lies below it."""
    return (path.casefold() + "\\").startswith(above.casefold() + "\\")


def within_one(path: str, directories: Container[str]) -> bool:
    """The same for a directory of many (a `FoldedDict`)."""
    while path:
        if path in directories:
            return True
        path = path.rpartition("\\")[0]
    return False


def listed(name: str, names: Iterable[str]) -> bool:
    """Whether a name is among others."""
    return name.casefold() in (other.casefold() for other in names)


def each_once(names: Iterable[str]) -> tuple[str, ...]:
    """The names in their order, each as it is spelled first."""
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(name.casefold(), name)
    return tuple(first.values())


def without(names: Iterable[str], gone: Iterable[str]) -> tuple[str, ...]:
    """Those of `names` that are not among `gone`."""
    found = FoldedDict.of(gone)
    return tuple(name for name in names if name not in found)
