"""Names of services and registry keys, which Windows compares without case."""

from collections.abc import Iterable


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
    folded = {name.casefold() for name in gone}
    return tuple(name for name in names if name.casefold() not in folded)
