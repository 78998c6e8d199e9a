"""What can go wrong with one host, in sentences that a person can act on. No message holds a value that was read or sent."""

import logging
import traceback
from collections.abc import Iterator
from pathlib import PurePath

_log = logging.getLogger("transom.faults")


class HostError(Exception):
    """Something could not be done on one host; the others are not concerned. `str` is the whole story, without the address."""


class Unreachable(HostError):
    """No SSH connection: name, network, port, time-out, or a server that does not speak SSH as we do."""


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


class PassTimedOut(HostError):
    """The pass took longer than it may."""


class FileRefused(HostError):
    """The host refused a file operation: disk full, no permission, something in the way."""


class DirectoryNotOurs(HostError):
    """The base directory belongs to somebody who is neither SYSTEM nor Administrators."""


class ScriptFailed(HostError):
    """A script did not do what it must, for a reason that it could not tell."""


class Unreadable(HostError):
    """A registry key, a value or a service that exists could not be read, or not be understood."""


class WrongEnvironmentType(HostError):
    """A service's value `Environment` is not of the type that Windows reads: it was left, and the rest of the host is done."""


class NotExpressible(HostError):
    """A name that cannot be written into a script without being read as something else."""


class Held(HostError):
    """Another pass works on the host."""

    def __init__(self, holder: str, boot: int | None) -> None:
        since = f", since boot {boot}" if boot is not None else ""
        super().__init__(
            f"the host is held by {holder}{since}. "
            "Wait until that pass has ended; if it is dead, its hold is void after the next boot"
        )
        self.holder, self.boot = holder, boot


class ManagedByOther(HostError):
    """The host, or its Node, is worked on by somebody else."""


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


class NotConverged(HostError):
    """The change was carried out, and the host still differs."""


class NotAdministrator(HostError):
    """The user may not do what a pass needs."""


class HashMismatch(HostError):
    """A file that was sent does not have its hash on the host."""


class InstallFailed(HostError):
    """Windows could not be prepared, a file not be placed, or a service not be made."""


class PutBack(HostError):
    """A version of a payload does not run, and the former one was put back."""

    def __init__(self, text: str, services: tuple[str, ...], version: str, former: str) -> None:
        super().__init__(text)
        self.services, self.version, self.former = services, version, former


class ServiceDied(HostError):
    """A service was started and does not run."""


class Fault(HostError):
    """A fault of Transom itself; what came from the host may have led to it."""


def fault(error: Exception) -> Fault:
    """The error of the host that was worked on; where it happened is logged.

    The text of the exception is neither told nor logged: it may quote what was read from the host, or was to be sent to it.
    """
    trace = tuple(frames(error))
    _log.error("a fault of Transom itself; the other hosts go on\n%s", "\n".join(trace))
    return Fault(f"a fault of Transom itself ({place(error)}); its log says where. Please report it; the next pass tries again")


def place(error: BaseException) -> str:
    """The kind of an exception and the line that raised it: `ValueError, plan.py:12`."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f", {PurePath(last[0].filename).name}:{last[0].lineno}" if last else ""
    return f"{type(error).__name__}{where}"


def frames(error: BaseException) -> Iterator[str]:
    """A traceback without the texts of its exceptions, the last call first."""
    shown: BaseException | None = error
    while shown is not None:
        yield type(shown).__name__
        for frame in reversed(traceback.extract_tb(shown.__traceback__)):
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)
