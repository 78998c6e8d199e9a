"""The difference between what a host should be and what it is: steps, each with its reason."""

from typing import Literal

import msgspec

from transom.windows.registry import Edit

Kind = Literal["machine-environment", "service-environment", "certificate", "service", "file", "ledger"]
Action = Literal["add", "replace", "remove", "restart"]


class Step(msgspec.Struct, frozen=True):
    """One change as people and JSON see it. No secret stands in it: targets name the thing, reasons say why."""

    kind: Kind
    target: str
    action: Action
    reason: str


class Plan(msgspec.Struct, frozen=True):
    """What has to be done on a host, in order: one import of `edits`, then `stop`, then `start`.

    Every service of `stop` has a note in the ledger (`…\\Transom\\Restarts`, value named as the service, REG_SZ), written by
    `edits`: `running` (it was running: it must run at the end) or `check` (a dependant whose state is not known: when it is
    running, its note becomes `running` before it is stopped; when it is stopped, its note is cleared and it stays stopped).
    A note is cleared when its service was seen running. With `forget` the ledger's key goes after the last note.
    """

    steps: tuple[Step, ...] = ()
    edits: tuple[Edit, ...] = ()
    stop: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    forget: bool = False

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.edits or self.stop or self.forget)
