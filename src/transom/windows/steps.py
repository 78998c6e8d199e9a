"""One change of a host, as people and JSON see it."""

from typing import Literal

import msgspec

from transom.windows.environment import Action

Kind = Literal["machine-environment", "service-environment", "certificate", "service", "file", "directory", "windows", "ledger"]


class Step(msgspec.Struct, frozen=True):
    """One change as people and JSON see it. No secret stands in it: targets name the thing, reasons say why."""

    kind: Kind
    target: str
    action: Action
    reason: str
