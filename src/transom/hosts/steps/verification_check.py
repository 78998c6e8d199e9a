"""What a check of `transom verify host` is."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from transom.common.check_results import Claim, Verdict
from transom.hosts.ssh.transport import Transport

Judge = Callable[[Sequence[str]], tuple[Verdict, str]]
Ask = Callable[[Transport, str], Awaitable[Sequence[str]]]
"""Asks for something by the transport, below a directory that is given by its SFTP path. Raises HostError."""


class HostCheck(Claim, frozen=True):
    """One question of a machine. `lines` are cmd; `judge` gets what they print, line by line."""

    lines: str
    judge: Judge
    where: Literal["everywhere", "with --change", "unused"] = "everywhere"
    """On which machines: on each; on those that may be changed; of these, on those not yet in use."""
    files: tuple[tuple[str, bytes], ...] = ()
    """The files next to the script: names and contents."""
    ask: Ask | None = None
    """What is asked once the script has ended; its lines come after the script's."""
