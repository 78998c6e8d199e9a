"""Hosts by the dozen, for the commands and the operator: a target, its pass, the rollout, the report.

The report is what `apply` and `diff` say of each host: JSON, and text for people.
"""

from typing import Final, Literal

import msgspec

from transom.windows.host import Step

Result = Literal["unchanged", "changed", "failed", "skipped"]
"""`skipped`: nothing was done to the host, which is nothing that went wrong on it; `error` says why."""
STOPPED: Final = "stopped by Ctrl-C before it was its turn"
STOPPED_WITHIN: Final = (
    "stopped by Ctrl-C while it was changed: what was begun on the host was finished, or goes on there by itself; "
    "`transom diff` tells what is left"
)


class HostReport(msgspec.Struct, frozen=True):
    """One host: what was done (`apply`) or would be (`diff`), and what went wrong, or why nothing was done (`skipped`)."""

    name: str
    address: str
    result: Result
    changes: tuple[Step, ...] = ()
    restarted: tuple[str, ...] = ()
    channels: int = 0
    seconds: float = 0.0
    error: str | None = None
    warnings: tuple[str, ...] = ()

    def skip(self, why: str) -> "HostReport":
        """The same host, of which nothing was done."""
        return msgspec.structs.replace(self, result="skipped", error=why)


class Report(msgspec.Struct, frozen=True):
    """All hosts of a command; `stopped`: Ctrl-C ended it before all were done."""

    hosts: tuple[HostReport, ...]
    stopped: bool = False

    def has(self, *results: Result) -> bool:
        """Whether a host came out so."""
        return any(host.result in results for host in self.hosts)
