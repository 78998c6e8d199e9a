"""What can go wrong with one host, in sentences that a person can act on. No message holds a value that was read or sent."""

import logging
import traceback
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final, Literal

_log = logging.getLogger("transom.faults")


class HostError(Exception):
    """A step failed on one host; the others are not affected. `str` is the complete message, without the address."""


class Unreachable(HostError):
    """No SSH connection: name, network, port, time-out, or a server that does not speak SSH as we do."""


class KeyExchangeTimedOut(Unreachable):
    """A TCP connection, and no SSH key exchange within its limit."""


class LoginTimedOut(Unreachable):
    """An SSH server that neither accepts nor refuses the login within its limit."""


class AuthenticationRefused(HostError):
    """The host answers, but takes none of our keys for this user."""


class KeyUnusable(HostError):
    """The private key cannot be read: not a key, or encrypted."""


class HostKeyChanged(HostError):
    """The host showed another key than the pinned or recorded one."""


class HostKeyMissing(HostError):
    """No key of the host is known, and hosts are not trusted on first use: it was not connected to."""


class HostKeyNotRecorded(HostError):
    """The key of a host that was first met could not be kept: nothing was sent to it."""


class HostKeyUnusable(HostError):
    """A pinned host key line that is not a public key."""


class HostKeyNotKept(HostError):
    """The key that the host showed first cannot be written down, so that another one would not be noticed."""


class ConnectionLost(HostError):
    """The connection ended, or made no progress, in the middle of a pass."""


class SftpUnavailable(HostError):
    """The SSH server accepts the login and starts no SFTP server."""


class ForcedCommand(HostError):
    """The SSH server runs its own command instead of Transom's, or of its SFTP server."""


class TooFewSessions(HostError):
    """The SSH server opens no further session on the connection."""


class PassTimedOut(HostError):
    """The pass took longer than it may."""


Stage = Literal["connecting", "reading", "changing"]
"""How far a pass has come with a host."""
_STOPPED: Final[dict[Stage, str]] = {
    "connecting": "stopped while connecting; nothing was changed",
    "reading": "stopped while the host was read; nothing was changed",
    "changing": "stopped while the host was changed: the restarts continue there; `transom diff` shows what is left",
}


class Stopped(HostError):
    """Who asked for the pass stopped it; `stage` is how far it had come."""

    def __init__(self, stage: Stage, left: str = "") -> None:
        """`left` is what stays on the host, as a sentence."""
        super().__init__(f"{_STOPPED[stage]}. {left}" if left else _STOPPED[stage])
        self.stage = stage


class FileRefused(HostError):
    """The host refused a file operation: disk full, no permission, something in the way."""


class FileBusy(FileRefused):
    """The host refused a file operation without a reason: a program may have the file open."""


class DirectoryNotOurs(HostError):
    """The base directory is not owned by SYSTEM or Administrators."""


class ScriptFailed(HostError):
    """A script did not do what it must, for a reason that it could not tell."""


class Unreadable(HostError):
    """A registry key, a value or a service that exists could not be read, or not be understood."""


class WrongEnvironmentType(HostError):
    """A service's value `Environment` is not of the type that Windows reads: it was left, and the rest of the host is done."""


class ProfileNotWritten(HostError):
    """The profile of Windows PowerShell could not be read or written: it was left, and the rest of the host is done."""


class NotExpressible(HostError):
    """A name that cannot be written into a script without being read as something else."""


class Held(HostError):
    """Another pass works on the host."""

    def __init__(self, holder: str, boot: int | None) -> None:
        since = f", since boot {boot}" if boot is not None else ""
        super().__init__(
            f"the host is locked by {holder}{since}. "
            "Wait until that pass has ended; if that process is dead, its lock ends with the next reboot of the host"
        )
        self.holder, self.boot = holder, boot


class FilesInUse(HostError):
    """A program has files open that Transom has just written, for longer than a virus scanner needs."""


class PingBlocked(HostError):
    """The program by which scripts wait does not run."""


class ManagedByOther(HostError):
    """The host, or its Node, has another manager."""


class Superseded(HostError):
    """A holder of a newer lease has worked on the host."""

    def __init__(self, generation: int, seen: int) -> None:
        super().__init__(f"a newer lease (generation {seen}) has worked on this host; this one is generation {generation}")
        self.generation, self.seen = generation, seen


class Overtaken(HostError):
    """An earlier pass ended on the host after this one had read it."""

    def __init__(self) -> None:
        super().__init__(
            "an earlier pass of Transom ended on the host meanwhile; nothing was changed by this one. It is tried again"
        )


class ImportFailed(HostError):
    """`reg import` said no."""


class RestartsFailed(HostError):
    """Services that did not stop, or did not start, in their time."""


class ServiceDisabled(HostError):
    """A service that runs is disabled: Windows would not start it again, so it was not stopped, and its restart is owed."""


class NotConverged(HostError):
    """The change was carried out, and the host still differs."""


class NotAdministrator(HostError):
    """The user may not do what a pass needs."""


class HashMismatch(HostError):
    """A file that was sent does not have its hash on the host."""


class InstallFailed(HostError):
    """Windows could not be prepared, a file not be placed, or a service not be made."""


class PutBack(HostError):
    """A version of a payload does not run, and the former one was restored."""

    def __init__(self, text: str, services: tuple[str, ...], version: str, former: str) -> None:
        super().__init__(text)
        self.services, self.version, self.former = services, version, former


class ServiceDied(HostError):
    """A service was started and does not run."""


class Fault(HostError):
    """A fault of Transom itself; what came from the host may have led to it."""


def build_fault(error: Exception) -> Fault:
    """Build the error of the current host; its location in the code is logged.

    The message of the exception is neither shown nor logged: it may quote data that was read from the host or was meant for
    it.
    """
    trace = tuple(iter_frames(error))
    _log.error("internal error; the other hosts continue\n%s", "\n".join(trace))
    return Fault(
        f"a fault of Transom itself ({format_place(error)}); its log says where. Please report it; the next pass tries again"
    )


def format_place(error: BaseException) -> str:
    """Format the kind of an exception and the line that raised it: `ValueError, plan.py:12`."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f", {PurePath(last[0].filename).name}:{last[0].lineno}" if last else ""
    return f"{type(error).__name__}{where}"


def iter_frames(error: BaseException) -> Iterator[str]:
    """Yield a traceback without the messages of its exceptions, the last call first."""
    shown: BaseException | None = error
    while shown is not None:
        yield type(shown).__name__
        for frame in reversed(traceback.extract_tb(shown.__traceback__)):
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
