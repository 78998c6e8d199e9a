"""A condition as controllers speak of it. Pure."""

from datetime import datetime
from typing import Final, Literal

import msgspec

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
"""Fields of a status besides the conditions: None leaves one as it is, an empty text takes it away."""


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
