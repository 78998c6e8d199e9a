"""One change of a host, as people and JSON see it."""

from typing import Literal

import msgspec

Action = Literal["add", "replace", "remove", "restart"]
Kind = Literal["machine-environment", "service-environment", "certificate", "service", "file", "directory", "windows", "ledger"]


class Step(msgspec.Struct, frozen=True):
    """One change as people and JSON see it. No secret stands in it: targets name the thing, reasons say why.

    `before` and `after` are the value of a variable or WinHTTP's proxies and bypass list, with userinfo as `***`, or size and
    keyed digest of a file; None where there is none, or where it is no text.
    """

    kind: Kind
    target: str
    action: Action
    reason: str
    before: str | None = None
    after: str | None = None
