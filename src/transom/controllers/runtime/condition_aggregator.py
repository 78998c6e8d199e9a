"""What controllers say of an EgressProxy: each its own conditions, which the egress controller writes into the one status."""

from collections.abc import Callable, Mapping

import msgspec

from transom.controllers.runtime.conditions import Conditions

Listener = Callable[[str], None]


class ConditionAggregator:
    """The newest word of each controller on each EgressProxy."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, Conditions]] = {}
        self._listeners: list[Listener] = []

    def put(self, source: str, conditions: Mapping[str, Conditions]) -> None:
        """All that a controller says now, by name of the EgressProxy; what it said before and does not repeat is taken back."""
        before = self._said.get(source, {})
        self._said[source] = dict(conditions)
        for name in before.keys() | conditions.keys():
            if before.get(name) != conditions.get(name):
                for listener in self._listeners:
                    listener(name)

    def of(self, name: str) -> Conditions:
        """The conditions of one EgressProxy, by type; what several say of one type is joined, and what is true counts."""
        found: Conditions = {}
        for said in self._said.values():
            for type_, condition in said.get(name, {}).items():
                before = found.get(type_)
                if before is None or (before.status, condition.status) == ("False", "True"):
                    found[type_] = condition
                elif before.status == condition.status == "True":
                    message = f"{before.message}; {condition.message}"
                    found[type_] = msgspec.structs.replace(before, message=message)
        return found

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with the name of each EgressProxy of which something else is said."""
        self._listeners.append(listener)
