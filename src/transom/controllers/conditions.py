"""A condition as controllers speak of it. Pure."""

from datetime import datetime
from typing import Literal

import msgspec


class Verdict(msgspec.Struct, frozen=True):
    """A condition without its times. `reason` is one word in CamelCase, `message` a sentence; no secret is in them."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


Verdicts = dict[str, Verdict]


def timestamp(now: datetime) -> str:
    """RFC 3339, whole seconds, UTC."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
