"""A condition as controllers speak of it, and how it comes into a status. Pure."""

from collections.abc import Iterable
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

    The time of a condition is new where its status is another. A message has no more than `longest` letters.
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
