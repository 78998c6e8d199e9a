"""What the status of an instance says of the changes on their way to its host, so that the next leader goes on with them. Pure.

Field `changes`, one word for each kind of change: `settings/3f6c…:passed`. The name is a keyed hash of the change. A `!` says
that the host halted the rollout; a time is what the host's own kubelet had last said of itself before it was restarted:
`settings/3f6c…:begun@2026-11-22T10:00:05+00:00`.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

import msgspec

from transom.controllers.runtime.conditions import moment

CHANGES: Final = "changes"
"""The field of a status."""
State = Literal["begun", "passed", "failed", "refuted", "over"]
_WORD: Final = re.compile(r"([a-z]+)/([0-9a-f]+):(begun|passed|failed|refuted|over)(!?)(?:@(\S+))?")


class Mark(msgspec.Struct, frozen=True):
    """How far one change has come on one host.

    `over`: the change had come to every host when this was written. `halted`: the rollout was stopped by this host. `beat` is
    the host's own heartbeat from before the change, where none that is later was heard yet.
    """

    kind: str
    change: str
    state: State
    halted: bool = False
    beat: datetime | None = None

    def __str__(self) -> str:
        beat = f"@{self.beat.isoformat()}" if self.beat is not None else ""
        return f"{self.kind}/{self.change}:{self.state}{'!' * self.halted}{beat}"


def read(text: object) -> tuple[Mark, ...]:
    """The marks of a status; words that are none are left out."""
    found = (_WORD.fullmatch(word) for word in str(text or "").split())
    return tuple(Mark(one[1], one[2], _STATES[one[3]], bool(one[4]), moment(one[5])) for one in found if one)


def written(text: object, marks: Iterable[tuple[str, Mark | None]]) -> str:
    """The field with other marks for these kinds of change, or none."""
    found = {one.kind: one for one in read(text)}
    for kind, mark in marks:
        found.pop(kind, None)
        if mark is not None:
            found[kind] = mark
    return " ".join(str(found[kind]) for kind in sorted(found))


_STATES: Final[dict[str, State]] = {
    "begun": "begun",
    "passed": "passed",
    "failed": "failed",
    "refuted": "refuted",
    "over": "over",
}
