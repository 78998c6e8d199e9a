"""What controllers say of an EgressProxy: each its own conditions, which the egress controller writes into the one status."""

from collections.abc import Callable, Mapping

import msgspec

from transom.controllers.conditions import Verdicts

Listener = Callable[[str], None]


class Reports:
    """The newest word of each controller on each EgressProxy."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, Verdicts]] = {}
        self._listeners: list[Listener] = []

    def put(self, source: str, verdicts: Mapping[str, Verdicts]) -> None:
        """All that a controller says now, by name of the EgressProxy; what it said before and does not repeat is taken back."""
        before = self._said.get(source, {})
        self._said[source] = dict(verdicts)
        for name in before.keys() | verdicts.keys():
            if before.get(name) != verdicts.get(name):
                for listener in self._listeners:
                    listener(name)

    def of(self, name: str) -> Verdicts:
        """The conditions of one EgressProxy, by type; what several say of one type is joined, and what is true counts."""
        found: Verdicts = {}
        for said in self._said.values():
            for type_, verdict in said.get(name, {}).items():
                before = found.get(type_)
                if before is None or (before.status, verdict.status) == ("False", "True"):
                    found[type_] = verdict
                elif before.status == verdict.status == "True":
                    message = f"{before.message}; {verdict.message}"
                    found[type_] = msgspec.structs.replace(before, message=message)
        return found

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with the name of each EgressProxy of which something else is said."""
        self._listeners.append(listener)
