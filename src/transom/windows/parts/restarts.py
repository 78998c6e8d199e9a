"""Which services have to be restarted with one, and in which order."""

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

Dependencies = Mapping[str, tuple[str, ...]]
"""Service to the services that it depends on (DependOnService; Microsoft: "HKLM\\SYSTEM\\CurrentControlSet\\Services")."""


def list_dependants(names: Iterable[str], dependencies: Dependencies) -> tuple[str, ...]:
    """Every service that depends on one of `names`, at any depth, without `names` themselves."""
    # by their numbers, so that those of one depth keep their order
    spelled = list(dependencies)
    needing: dict[str, list[int]] = {}
    for number, needs in enumerate(dependencies.values()):
        for need in needs:
            needing.setdefault(need.casefold(), []).append(number)
    level = {name.casefold() for name in names}
    reached, result = set(level), list[str]()
    while level:
        more = [spelled[number] for number in sorted({number for name in level for number in needing.get(name, ())})]
        level = {name.casefold() for name in more} - reached
        result.extend(name for name in more if name.casefold() in level)
        reached |= level
    return tuple(result)


def sort_for_stop(names: Iterable[str], dependencies: Dependencies) -> tuple[str, ...]:
    """Order `names` with dependants before their dependencies; the start order is the reverse.

    Cycles keep their order. A group (`+name`) in DependOnService is not a service and is ignored.
    """
    by_name = {name.casefold(): name for name in names}
    folded = {name.casefold(): needs for name, needs in dependencies.items()}
    graph = {
        name: [need.casefold() for need in folded.get(name, ()) if need.casefold() in by_name and need.casefold() != name]
        for name in by_name
    }
    try:
        starting = list(TopologicalSorter(graph).static_order())
    except CycleError:
        starting = list(reversed(by_name))
    return tuple(by_name[name] for name in reversed(starting))


def sort_for_start(names: Iterable[str], dependencies: Dependencies) -> tuple[str, ...]:
    """`names` with what they depend on before them, and in the given order otherwise. A cycle keeps the given order."""
    by_name = {name.casefold(): name for name in names}
    folded = {name.casefold(): needs for name, needs in dependencies.items()}
    ordered: dict[str, str] = {}
    entered: set[str] = set()

    for first in by_name:
        # not by calls: what a host says of itself may be a chain of any length
        path = [(first, iter(folded.get(first, ())))] if first not in entered else []
        entered.add(first)
        while path:
            name, needs = path[-1]
            need = next((need.casefold() for need in needs if need.casefold() not in entered), None)
            if need is not None:
                entered.add(need)
                path.append((need, iter(folded.get(need, ()))))
                continue
            path.pop()
            if name in by_name:
                ordered.setdefault(name, by_name[name])
    return tuple(ordered.values())


def find_cycle(dependencies: Dependencies) -> tuple[str, ...]:
    """Return a cycle of services that depend on each other, its first name repeated at the end; empty if none."""
    spelled = {name.casefold(): name for name in dependencies}
    try:
        graph = {name.casefold(): [need.casefold() for need in needs] for name, needs in dependencies.items()}
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return tuple(spelled.get(name, name) for name in reversed(error.args[1]))
    return ()
