"""Passes: one connection to one host, from what is found to what is reported.

Here is their frame: the host held, a limit of time, one connection, and its troubles in a result.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

import msgspec

from transom.hosts.errors import (
    Held,
    HostError,
    ManagedByOther,
    Overtaken,
    PassTimedOut,
    Unreadable,
    WrongEnvironmentType,
    fault,
)
from transom.hosts.owner import Owner, claim
from transom.hosts.scripts import Patience
from transom.hosts.ssh import Access, Timeouts
from transom.hosts.ssh.directory import Directory
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.ssh.transport import Transport, ssh
from transom.hosts.steps.gather import gather
from transom.windows import ledger
from transom.windows.host import ObservedState, Step
from transom.windows.host.entries import LedgerError
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.ledger import Manager, OtherManager
from transom.windows.nodes.fetch import Fetched
from transom.windows.planning import Plan


class PassSettings(msgspec.Struct, frozen=True):
    """How passes are made: who makes them, and how long things may take."""

    owner: Owner
    claims: Path | None = None
    """The directory in which processes of one owner keep each other off a host; None: one process, once at a time."""
    timeouts: Timeouts = Timeouts()
    patience: Patience = Patience()
    permit: Callable[[], object] = lambda: None
    """Asked right before a host is changed. What it raises (the lease is lost) ends the pass, with nothing done."""
    outer: tuple[type[Exception], ...] = ()
    """Exceptions of what a pass is handed that are no matter of the host: they leave the pass. All others are the host's."""
    adopts: bool = False
    """Whether a host is taken over from another manager."""

    @property
    def manager(self) -> Manager:
        """Who plans what is done."""
        return Manager(self.owner.manager, adopts=self.adopts)


class PassResult(msgspec.Struct, frozen=True):
    """What a pass found and did. `error` says why it failed, whatever it had done by then."""

    before: ObservedState | None = None
    plan: Plan | None = None
    after: ObservedState | None = None
    restarted: tuple[str, ...] = ()
    channels: int = 0
    seconds: float = 0
    error: HostError | None = None
    begun: bool = False
    """Whether the change was begun: the host may have become another."""
    waiting: bool = False
    """Whether there was something to do, and it was not the host's turn."""
    fetched: tuple[Fetched, ...] | None = ()
    """What the host fetched, where it was asked to; None where it has no curl.exe."""
    first: tuple[Step, ...] = ()
    """What was changed before the plan was made."""

    @property
    def result(self) -> Literal["unchanged", "changed", "failed"]:
        """In the word that a report has for it; for a dry run, what a real one would do."""
        if self.error is not None:
            return "failed"
        return "changed" if self.plan or self.first else "unchanged"


Admit = Callable[[], Awaitable[bool]]
"""Asked before a host is changed: whether it is its turn."""


def answering(answer: bool) -> Admit:
    """It is every host's turn, or none's, as `answer` says."""

    async def admit() -> bool:
        return answer

    return admit


EVERYBODY: Final = answering(True)

_R = TypeVar("_R", bound=PassResult)


class Pass(ABC, Generic[_R]):
    """One pass: `run` is its frame, `_steps` what is done on the host, `result` how far it came."""

    def __init__(self, settings: PassSettings, result: _R) -> None:
        self._settings = settings
        self.result = result

    async def run(self, access: Access, host_keys: HostKeys, *, only_reads: bool = False) -> _R:
        """Make the pass over a connection of its own; every trouble of the host is in the result."""
        begun = time.monotonic()
        error: HostError | None = None
        try:
            async with opened(access, host_keys, self._settings, only_reads=only_reads) as directory:
                at_first = self.result
                try:
                    try:
                        await self._steps(directory)
                    except Overtaken:
                        self.result = at_first
                        await self._steps(directory)
                finally:
                    self._note(channels=directory.transport.channels)
        except HostError as raised:
            error = raised
        error = error or self.result.error or _left(self.result)
        return msgspec.structs.replace(self.result, seconds=time.monotonic() - begun, error=error)

    @abstractmethod
    async def _steps(self, directory: Directory) -> None:
        """What the pass does. Raises HostError, LedgerError, with what is known by then noted."""

    def _note(self, **fields: object) -> None:
        self.result = msgspec.structs.replace(self.result, **fields)


def _left(result: PassResult) -> HostError | None:
    """What a pass that did the rest had to leave."""
    faults = result.plan.faults if result.plan is not None and not result.waiting else ()
    return WrongEnvironmentType("; ".join(faults)) if faults else None


@asynccontextmanager
async def opened(
    access: Access, host_keys: HostKeys, settings: PassSettings, *, only_reads: bool = False, doing: str = "the pass"
) -> AsyncIterator[Directory]:
    """Transom's directory on a host that is held as by `hold`, over a connection of its own. Raises HostError."""
    async with (
        hold(access, settings, only_reads=only_reads, doing=doing) as alone,
        ssh(access, host_keys, settings.timeouts) as transport,
    ):
        yield own_directory(transport, settings.owner, alone=alone)


@asynccontextmanager
async def hold(
    access: Access, settings: PassSettings, *, only_reads: bool = False, doing: str = "the pass"
) -> AsyncIterator[bool]:
    """Hold a host against this owner's other processes for a pass, of at most `settings.timeouts.whole` seconds.

    Gives whether the host is held. Where another process holds it, a pass that `only_reads` goes on beside that one, without
    holding it; any other raises Held. Raises PassTimedOut, which says what it was `doing`. Whatever else is raised meanwhile is
    raised as a HostError, but for the exceptions that `settings.outer` names.
    """
    try:
        with _claimed(settings, access, needed=not only_reads) as alone:
            async with asyncio.timeout(settings.timeouts.whole):
                yield alone
    except TimeoutError:
        raise PassTimedOut(f"{doing} took longer than {settings.timeouts.whole:g} s") from None
    except HostError:
        raise
    except settings.outer:
        raise
    except OtherManager as error:
        raise ManagedByOther(str(error)) from None
    except LedgerError as error:
        raise Unreadable(f"the ledger in {LEDGER} cannot be understood: {error}") from None
    except Exception as error:  # noqa: BLE001  # a host's answers must not be able to end the work on others
        raise fault(error) from None


@contextmanager
def _claimed(settings: PassSettings, access: Access, *, needed: bool) -> Iterator[bool]:
    with ExitStack() as stack:
        alone = True
        if settings.claims is not None:
            try:
                stack.enter_context(claim(settings.claims, access.address, access.port))
            except Held:
                if needed:
                    raise
                alone = False
            except OSError as error:
                told = f"{error.filename or settings.claims}: {error.strerror}"
                raise HostError(f"nothing was done, since it cannot be kept to one command at a time: {told}") from None
        yield alone


def own_directory(transport: Transport, owner: Owner, *, alone: bool) -> Directory:
    """Transom's directory on a host, for this owner.

    Where it is not `alone`, its files have names of their own: another process of this owner would take them for left-overs.
    """
    if not alone:
        owner = msgspec.structs.replace(owner, identity=f"{owner.identity}-reader")
    return Directory(transport, owner, alone=alone)


async def look(access: Access, host_keys: HostKeys, settings: PassSettings, questions: Queries) -> ObservedState:
    """What a host answers to `questions` now; nothing of ours stays where nothing was before. Raises HostError."""
    async with opened(access, host_keys, settings, only_reads=True, doing="reading the host") as directory:
        state = await gather(directory, questions)
        await leave(directory, state)
        # whoever looks at the state reads it
        ledger.read(state.registry)
        return state


async def leave(directory: Directory, state: ObservedState) -> None:
    """Remove Transom's directory from a host without a ledger: it has nothing else of ours."""
    if state.registry.key(LEDGER) is None:
        await directory.dismantle()


def differences(plan: Plan) -> str:
    """What is left to do after a change, as a sentence."""
    steps = [f"{step.kind} {step.target}" for step in plan.steps]
    shown = ", ".join(steps[:3]) + (f" and {len(steps) - 3} more" if len(steps) > 3 else "")
    return f"the change was carried out, and the host still differs{': ' + shown if shown else ''}"
