"""What controllers say: a condition, how it comes into a status, and what all of them say of one EgressProxy. Pure."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, Literal

import msgspec

from transom.proxy.status import StatusCondition
from transom.shown import shown

PENDING: Final = "Pending"
"""The reason of what was True by settings that do not hold any more."""


class Condition(msgspec.Struct, frozen=True):
    """A condition without its times. `reason` is one word in CamelCase, `message` a sentence; no secret is in them.

    What a host or a server has in the message is there as it is shown.
    """

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str

    def __post_init__(self) -> None:
        if not self.message.isprintable():
            msgspec.structs.force_setattr(self, "message", shown(self.message))


Conditions = dict[str, Condition]
Fields = dict[str, str | None]
"""Fields of a status besides the conditions, as its struct has them: None leaves one as it is, an empty text takes it away."""


def merge(
    before: Iterable[StatusCondition],
    said: Conditions,
    types: Iterable[str],
    generation: int | None,
    now: datetime,
    *,
    longest: int,
) -> tuple[StatusCondition, ...]:
    """The conditions of these types, in this order: what is said, else what stood there before.

    `before` is what stands in the status, `generation` that of the object which was looked at (None: not known). The time of a
    condition is `now` where its status is another. A message has no more than `longest` letters.
    """
    known = {one.type: one for one in before}
    merged = []
    for type_ in types:
        there, condition = known.get(type_), said.get(type_)
        if condition is not None:
            since = there.last_transition_time if there is not None and there.status == condition.status else timestamp(now)
            message = condition.message if len(condition.message) <= longest else condition.message[: longest - 1] + "…"
            observed = msgspec.UNSET if generation is None else generation
            merged.append(StatusCondition(type_, condition.status, condition.reason, message, since, observed))
        elif there is not None:
            merged.append(there)
    return tuple(merged)


def timestamp(now: datetime) -> str:
    """RFC 3339, whole seconds, UTC."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(text: str | None) -> datetime | None:
    """The time that a text says, with its zone; None for what says none."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


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
