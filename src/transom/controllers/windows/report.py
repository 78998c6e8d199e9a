"""What `apply` and `diff` say of each host: JSON, and tables for people."""

from typing import Literal

import msgspec

from transom.windows.steps import Step

Result = Literal["unchanged", "changed", "failed"]


class HostReport(msgspec.Struct, frozen=True):
    """One host: what was done (`apply`) or would be (`diff`), and what went wrong."""

    name: str
    address: str
    result: Result
    changes: tuple[Step, ...] = ()
    restarted: tuple[str, ...] = ()
    channels: int = 0
    seconds: float = 0.0
    error: str | None = None
    warnings: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """All hosts of a command."""

    hosts: tuple[HostReport, ...]
