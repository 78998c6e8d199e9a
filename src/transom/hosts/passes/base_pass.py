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

from transom.common.counting import format_first
from transom.hosts.errors import (
    Held,
    HostError,
    ManagedByOther,
    Overtaken,
    PassTimedOut,
    ProfileNotWritten,
    ServiceDisabled,
    Stage,
    Stopped,
    Unreadable,
    WrongEnvironmentType,
    build_fault,
)
from transom.hosts.owner import Owner, lock_host
from transom.hosts.scripts.host_scripts import ServiceTimeouts
from transom.hosts.scripts.service_result import describe_disabled_services
from transom.hosts.scripts.template import BASE
from transom.hosts.ssh.connections import GOODBYE_SECONDS
from transom.hosts.ssh.directory import CLEARING_SECONDS, HostDirectory
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.ssh.ssh_client import Access, Timeouts
from transom.hosts.ssh.transport import Transport, open_ssh
from transom.hosts.steps.gather import gather
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState, Step
from transom.windows.host.ledger_entries import LedgerError
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.ledger import Manager, OtherManager
from transom.windows.nodes.fetch import FetchAttempt
from transom.windows.planning.planner import Plan


class PassSettings(msgspec.Struct, frozen=True):
    """How passes are made: who makes them, and how long things may take."""

    owner: Owner
    claims: Path | None = None
    """The directory in which processes of one owner keep each other off a host; None: one process, once at a time."""
    timeouts: Timeouts = Timeouts()
    patience: ServiceTimeouts = ServiceTimeouts()
    permit: Callable[[], object] = lambda: None
    """Asked right before a host is changed. What it raises (the lease is lost) ends the pass, with nothing done."""
    outer: tuple[type[Exception], ...] = ()
    """Exceptions from the callbacks of a pass that do not concern the host: they end the pass. All others are the host's."""
    adopts: bool = False
    """Whether a host is taken over from another manager."""
    clears_when_stopped: bool = False
    """Whether a pass, which must be a separate task, removes its files from the host when it is cancelled, and then
    raises Stopped. Without that CancelledError is raised at once, and the next pass clears up: a leader that has lost its lease
    must not touch the files of the next one."""

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
    fetched: tuple[FetchAttempt, ...] | None = ()
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


def build_fixed_admit(answer: bool) -> Admit:
    """Build an Admit that gives the same answer for every host."""

    async def admit() -> bool:
        return answer

    return admit


EVERYBODY: Final = build_fixed_admit(True)
_CLEARING_SECONDS: Final = 10.0
"""Seconds in which a pass that was stopped clears up, the connection for that included."""
STOP_SECONDS: Final = CLEARING_SECONDS + _CLEARING_SECONDS + 2 * GOODBYE_SECONDS + 3.0
"""Seconds in which a pass that is stopped while it reads has ended, all its limits together; a change has more (`change`)."""

_R = TypeVar("_R", bound=PassResult)


class Pass(ABC, Generic[_R]):
    """One pass: `run` is its frame, `_steps` what is done on the host, `result` how far it came."""

    def __init__(self, settings: PassSettings, result: _R, *, only_reads: bool = False) -> None:
        """With `only_reads` the pass changes nothing: it does not wait until another process leaves the host."""
        self._settings, self._only_reads = settings, only_reads
        self.result = result

    async def run(self, access: Access, host_keys: HostKeys) -> _R:
        """Run the pass over a connection of its own; every error of the host is in the result."""
        started_at = time.monotonic()
        error: HostError | None = None
        try:
            async with open_directory(access, host_keys, self._settings, only_reads=self._only_reads) as directory:
                at_first = self.result
                try:
                    try:
                        await self._run_steps(directory)
                    except Overtaken:
                        self.result = at_first
                        await self._run_steps(directory)
                finally:
                    self._update_result(channels=directory.transport.channels)
        except HostError as raised:
            error = raised
        error = error or self.result.error or _find_plan_error(self.result)
        return msgspec.structs.replace(self.result, seconds=time.monotonic() - started_at, error=error)

    @abstractmethod
    async def _run_steps(self, directory: HostDirectory) -> None:
        """Run the steps of the pass and note their results. Raises HostError, LedgerError."""

    def _update_result(self, **fields: object) -> None:
        self.result = msgspec.structs.replace(self.result, **fields)


def _find_plan_error(result: PassResult) -> HostError | None:
    """Return the error of what the plan left: variables of a wrong type, disabled services that owe a restart, a profile."""
    plan = result.plan
    if plan is None or result.waiting:
        return None
    others: tuple[str, ...] = (describe_disabled_services(plan.disabled),) if plan.disabled else ()
    others += (plan.profile_fault,) if plan.profile_fault else ()
    if plan.faults:
        return WrongEnvironmentType("; ".join((*plan.faults, *others)))
    if plan.disabled:
        return ServiceDisabled("; ".join(others))
    return ProfileNotWritten(plan.profile_fault) if plan.profile_fault else None


@asynccontextmanager
async def open_directory(
    access: Access, host_keys: HostKeys, settings: PassSettings, *, only_reads: bool = False, doing: str = "the pass"
) -> AsyncIterator[HostDirectory]:
    """Transom's directory on a host that is held as by `hold`, over a connection of its own. Raises HostError."""
    with _convert_to_host_errors(settings, doing), _hold_local_lock(settings, access, needed=not only_reads) as alone:
        directory: HostDirectory | None = None
        try:
            async with asyncio.timeout(settings.timeouts.whole), open_ssh(access, host_keys, settings.timeouts) as transport:
                directory = build_owner_directory(transport, settings.owner, alone=alone)
                yield directory
        except asyncio.CancelledError:
            if not settings.clears_when_stopped:
                raise
            raise await _clear_after_stop(access, host_keys, settings, directory, alone=alone) from None


async def _clear_after_stop(
    access: Access, host_keys: HostKeys, settings: PassSettings, directory: HostDirectory | None, *, alone: bool
) -> Stopped:
    """Clear up on a host whose pass was stopped.

    That needs a connection of its own: until the other one has ended, scripts of the pass run, and hold their files.
    """
    if directory is None:
        return Stopped("connecting")
    stage: Stage = "changing" if directory.is_changing else "reading"
    try:
        async with asyncio.timeout(_CLEARING_SECONDS), open_ssh(access, host_keys, settings.timeouts) as transport:
            await build_owner_directory(transport, settings.owner, alone=alone).clear_after_stop(directory)
    except (HostError, TimeoutError):
        return Stopped(stage, rf"Its files in {BASE} stay until the next pass")
    return Stopped(stage)


@asynccontextmanager
async def hold_host(
    access: Access, settings: PassSettings, *, only_reads: bool = False, doing: str = "the pass"
) -> AsyncIterator[bool]:
    """Hold a host against this owner's other processes for a pass, of at most `settings.timeouts.whole` seconds.

    Yields whether the host is held. If another process holds it, a pass that `only_reads` continues without holding it; any
    other raises Held. Raises PassTimedOut, which names what it was `doing`. Any other exception is raised as a HostError,
    except those in `settings.outer`.
    """
    with _convert_to_host_errors(settings, doing), _hold_local_lock(settings, access, needed=not only_reads) as alone:
        async with asyncio.timeout(settings.timeouts.whole):
            yield alone


@contextmanager
def _convert_to_host_errors(settings: PassSettings, doing: str) -> Iterator[None]:
    """Raise exceptions of the block as HostError, except for those that `settings.outer` names."""
    try:
        yield
    except TimeoutError:
        raise PassTimedOut(f"{doing} took longer than {settings.timeouts.whole:g} s (limit: `--pass-timeout`)") from None
    except HostError:
        raise
    except settings.outer:
        raise
    except OtherManager as error:
        raise ManagedByOther(str(error)) from None
    except LedgerError as error:
        raise Unreadable(f"the ledger in {LEDGER} cannot be understood: {error}") from None
    except Exception as error:  # noqa: BLE001  # a host's answers must not be able to end the work on others
        raise build_fault(error) from None


@contextmanager
def _hold_local_lock(settings: PassSettings, access: Access, *, needed: bool) -> Iterator[bool]:
    with ExitStack() as stack:
        alone = True
        if settings.claims is not None:
            try:
                stack.enter_context(lock_host(settings.claims, access.address, access.port))
            except Held:
                if needed:
                    raise
                alone = False
            except OSError as error:
                reason = f"{error.filename or settings.claims}: {error.strerror}"
                raise HostError(
                    f"nothing was done, since it cannot be kept to one command at a time: {reason}; "
                    "XDG_STATE_HOME can name another directory"
                ) from None
        yield alone


def build_owner_directory(transport: Transport, owner: Owner, *, alone: bool) -> HostDirectory:
    """Return Transom's directory on a host, for this owner.

    If it is not `alone`, its files get other names, because another process of this owner would delete them as left-overs.
    """
    if not alone:
        owner = msgspec.structs.replace(owner, identity=f"{owner.identity}-reader")
    return HostDirectory(transport, owner, alone=alone)


async def query_host(access: Access, host_keys: HostKeys, settings: PassSettings, questions: Queries) -> ObservedState:
    """Return a host's current answers to `questions`; nothing is left on an unmanaged host. Raises HostError."""
    async with open_directory(access, host_keys, settings, only_reads=True, doing="reading the host") as directory:
        state = await gather(directory, questions)
        await remove_directory_without_ledger(directory, state)
        # readers of the state find it there
        ledger.read(state.registry)
        return state


async def remove_directory_without_ledger(directory: HostDirectory, state: ObservedState) -> None:
    """Remove Transom's directory from a host without a ledger: it has nothing else from Transom."""
    if state.registry.find_key(LEDGER) is None:
        await directory.remove_base()


def describe_differences(plan: Plan) -> str:
    """Describe the steps that remain after a change, as a sentence."""
    shown = format_first((f"{step.kind} {step.target}" for step in plan.steps), 3)
    return f"the change was carried out, and the host still differs{': ' + shown if shown else ''}"
