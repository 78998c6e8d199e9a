"""One pass on one host: gather, plan, and where there is something to do, change and gather again."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from transom.hosts.answers import merged
from transom.hosts.change import carry_out, fetch
from transom.hosts.connection import Access, Timeouts
from transom.hosts.directory import Directory
from transom.hosts.errors import Held, HostError, NotConverged, PassTimedOut, Unreadable
from transom.hosts.gather import gather
from transom.hosts.known_hosts import HostKeys
from transom.hosts.owner import Owner, claim
from transom.hosts.script import Patience
from transom.hosts.transport import Transport, ssh
from transom.proxy.secret import Secret
from transom.windows.fetch import Fetched
from transom.windows.gathering import LEDGER, Questions
from transom.windows.ledger import LedgerError
from transom.windows.plan import Plan
from transom.windows.questions import again, combined
from transom.windows.state import HostState

Planner = Callable[[HostState], Plan]
Missing = Callable[[HostState, Plan], Questions | None]
"""What has to be known before this plan can be relied on; None where it is enough. It is asked once."""


class Settings(msgspec.Struct, frozen=True):
    """How passes are made: who makes them, and how long things may take.

    `claims` is the directory in which processes of the same owner keep each other off a host; None where the owner is one
    process that works on each host once at a time. `permit` is asked right before a host is changed: what it raises (the lease
    is lost) ends the pass, with nothing done.
    """

    owner: Owner
    claims: Path | None = None
    timeouts: Timeouts = Timeouts()
    patience: Patience = Patience()
    permit: Callable[[], object] = lambda: None


class PassResult(msgspec.Struct, frozen=True):
    """What a pass found and did. `error` says why it failed, whatever it had done by then."""

    before: HostState | None = None
    plan: Plan | None = None
    after: HostState | None = None
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

    @property
    def result(self) -> Literal["unchanged", "changed", "failed"]:
        """In the words of the command line's contract; for a dry run, what a real one would do."""
        if self.error is not None:
            return "failed"
        return "changed" if self.plan else "unchanged"


async def converge(
    access: Access,
    host_keys: HostKeys,
    settings: Settings,
    questions: Questions,
    *,
    planner: Planner,
    missing: Missing,
    dry_run: bool = False,
    fetches: Sequence[Secret] = (),
    fetch_anyway: bool = False,
    admit: Callable[[], bool] = lambda: True,
) -> PassResult:
    """Make the host what the planner wants over a connection of its own; every trouble of the host is in the result.

    After a change, or with `fetch_anyway`, the host tries the `fetches` (files for `curl.exe -K`). `admit` is asked before a
    change: where it says no, nothing is changed.
    """
    begun = time.monotonic()
    work = _Pass(settings, questions, planner, missing, admit=(lambda: False) if dry_run else admit, fetches=fetches)
    work.fetch_anyway = fetch_anyway
    error: HostError | None = None
    try:
        with claimed(settings, access, needed=not dry_run) as alone:
            async with asyncio.timeout(settings.timeouts.whole), ssh(access, host_keys, settings.timeouts) as transport:
                await work.run(transport, alone=alone)
    except HostError as raised:
        error = raised
    except TimeoutError:
        error = PassTimedOut(f"the pass took longer than {settings.timeouts.whole:g} s")
    return msgspec.structs.replace(work.result, seconds=time.monotonic() - begun, error=error or work.result.error)


async def look(access: Access, host_keys: HostKeys, settings: Settings, questions: Questions) -> HostState:
    """What a host looks like now; nothing of ours stays where nothing was before. Raises HostError."""
    try:
        with claimed(settings, access, needed=False) as alone:
            async with asyncio.timeout(settings.timeouts.whole), ssh(access, host_keys, settings.timeouts) as transport:
                directory = own_directory(transport, settings.owner, alone=alone)
                state = await gather(directory, questions)
                await leave(directory, state)
                return state
    except TimeoutError:
        raise PassTimedOut(f"reading the host took longer than {settings.timeouts.whole:g} s") from None


@contextmanager
def claimed(settings: Settings, access: Access, *, needed: bool) -> Iterator[bool]:
    """Whether the host is held against our own other processes; who only reads goes on without. Raises Held."""
    with ExitStack() as stack:
        alone = True
        if settings.claims is not None:
            try:
                stack.enter_context(claim(settings.claims, access.address, access.port))
            except Held:
                if needed:
                    raise
                alone = False
        yield alone


def own_directory(transport: Transport, owner: Owner, *, alone: bool) -> Directory:
    """A reader beside another process of its owner has names of its own: what it needs is no left-over to the other."""
    if not alone:
        owner = msgspec.structs.replace(owner, identity=f"{owner.identity}-reader")
    return Directory(transport, owner, alone=alone)


class _Pass:
    """The steps of a pass, and how far it came."""

    def __init__(
        self,
        settings: Settings,
        questions: Questions,
        planner: Planner,
        missing: Missing,
        *,
        admit: Callable[[], bool],
        fetches: Sequence[Secret],
    ) -> None:
        self._settings, self._questions = settings, questions
        self._planner, self._missing, self._admit, self._fetches = planner, missing, admit, fetches
        self.fetch_anyway = False
        self.result = PassResult()

    async def run(self, transport: Transport, *, alone: bool) -> None:
        """Gather, plan, change. Raises HostError, with `result` as far as it is known."""
        try:
            await self._converge(own_directory(transport, self._settings.owner, alone=alone))
        except LedgerError as error:
            raise Unreadable(f"the ledger in {LEDGER} cannot be understood: {error}") from None
        finally:
            self._note(channels=transport.channels)

    async def _converge(self, directory: Directory) -> None:
        asked = self._questions
        state = await gather(directory, asked)
        self._note(before=state)
        plan = self._planner(state)
        if more := self._missing(state, plan):
            asked = combined(self._questions, more)
            state = merged(state, await gather(directory, beyond(asked, self._questions)))
            self._note(before=state)
            plan = self._planner(state)
        self._note(plan=plan)
        if not plan or not self._admit():
            self._note(waiting=bool(plan))
            if not plan and self.fetch_anyway and self._fetches:
                self._note(fetched=await fetch(directory, self._fetches))
            await leave(directory, state)
            return
        self._note(begun=True)
        done = await carry_out(
            directory,
            plan,
            state,
            again(asked, state, dependants=self._questions.dependants),
            patience=self._settings.patience,
            fetches=self._fetches,
            permit=self._settings.permit,
        )
        self._note(after=done.after, restarted=done.restarted, error=done.error, fetched=done.fetched)
        if done.error is None and (rest := self._planner(done.after)):
            self._note(error=NotConverged(differences(rest)))
        await leave(directory, done.after)

    def _note(self, **fields: object) -> None:
        self.result = msgspec.structs.replace(self.result, **fields)


def beyond(wider: Questions, asked: Questions) -> Questions:
    """Those of `wider` that are not in `asked`."""
    rest = Questions(
        services=_others(wider.services, asked.services),
        environment=wider.environment and not asked.environment,
        boot=wider.boot and not asked.boot,
        stores=_others(wider.stores, asked.stores),
        keys=_others(wider.keys, asked.keys),
        dependants=wider.dependants and not asked.dependants,
    )
    return combined(rest)


def _others(names: tuple[str, ...], without: tuple[str, ...]) -> tuple[str, ...]:
    known = {name.casefold() for name in without}
    return tuple(name for name in names if name.casefold() not in known)


async def leave(directory: Directory, state: HostState) -> None:
    """A host without a ledger has nothing of ours: the directory goes as well."""
    if state.registry.key(LEDGER) is None:
        await directory.dismantle()


def differences(plan: Plan) -> str:
    """What is left to do after a change, as a sentence."""
    steps = [f"{step.kind} {step.target}" for step in plan.steps]
    shown = ", ".join(steps[:3]) + (f" and {len(steps) - 3} more" if len(steps) > 3 else "")
    return f"the change was carried out, and the host still differs{': ' + shown if shown else ''}"
