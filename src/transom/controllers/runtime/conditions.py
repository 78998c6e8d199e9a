"""What controllers say: a condition, how it comes into a status, and what all of them say of one EgressProxy. Pure."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, Literal

import msgspec

from transom.common.escaping import escape_unprintable
from transom.common.timestamps import format_timestamp
from transom.proxy.status import StatusCondition

PENDING: Final = "Pending"
"""The reason of what was True by settings that do not hold any more."""


class Condition(msgspec.Struct, frozen=True):
    """A condition without its times. `reason` is one word in CamelCase, `message` a sentence; neither has a secret.

    Text of a host or a server in the message is sanitized.
    """

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str

    def __post_init__(self) -> None:
        if not self.message.isprintable():
            msgspec.structs.force_setattr(self, "message", escape_unprintable(self.message))


Conditions = dict[str, Condition]
Fields = dict[str, str | None]
"""Fields of a status other than its conditions, as in its struct: None leaves one unchanged, an empty string deletes it."""


def merge_conditions(
    before: Iterable[StatusCondition],
    new_conditions: Conditions,
    types: Iterable[str],
    generation: int | None,
    now: datetime,
    *,
    longest: int,
) -> tuple[StatusCondition, ...]:
    """Merge the conditions of these types, in this order: the new one, else the one of `before`.

    `before` is the present status, `generation` that of the observed object (None: not known). The time of a
    condition is `now` where its status changes. A message has no more than `longest` letters.
    """
    known = {item.type: item for item in before}
    merged = []
    for type_ in types:
        previous, condition = known.get(type_), new_conditions.get(type_)
        if condition is not None:
            since = (
                previous.last_transition_time
                if previous is not None and previous.status == condition.status
                else format_timestamp(now)
            )
            message = condition.message if len(condition.message) <= longest else condition.message[: longest - 1] + "…"
            observed = msgspec.UNSET if generation is None else generation
            merged.append(StatusCondition(type_, condition.status, condition.reason, message, since, observed))
        elif previous is not None:
            merged.append(previous)
    return tuple(merged)


Listener = Callable[[str], None]


class ConditionAggregator:
    """The newest word of each controller on each EgressProxy."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, Conditions]] = {}
        self._listeners: list[Listener] = []

    def set_conditions(self, source: str, conditions: Mapping[str, Conditions]) -> None:
        """All that a controller says now, by name of the EgressProxy; what it said before and does not repeat is taken back."""
        before = self._said.get(source, {})
        self._said[source] = dict(conditions)
        for name in before.keys() | conditions.keys():
            if before.get(name) != conditions.get(name):
                for listener in self._listeners:
                    listener(name)

    def get_conditions(self, name: str) -> Conditions:
        """Return the conditions of one EgressProxy by type; messages of one type are joined."""
        conditions: Conditions = {}
        for item in self._said.values():
            for type_, condition in item.get(name, {}).items():
                before = conditions.get(type_)
                if before is None or (before.status, condition.status) == ("False", "True"):
                    conditions[type_] = condition
                elif before.status == condition.status == "True":
                    message = f"{before.message}; {condition.message}"
                    conditions[type_] = msgspec.structs.replace(before, message=message)
        return conditions

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with the name of each EgressProxy of which something else is said."""
        self._listeners.append(listener)
