"""One pass on one host: gather, plan, and where there is something to do, change and gather again."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from transom.hosts.errors import NotConverged
from transom.hosts.passes import EVERYBODY, Admit, Pass, PassResult, PassSettings, answering, differences, leave, opened
from transom.hosts.ssh import Access
from transom.hosts.ssh.directory import Directory
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.steps.change import carry_out, fetch
from transom.hosts.steps.facts_parser import merged
from transom.hosts.steps.gather import gather, understood
from transom.proxy.secret import Secret
from transom.windows.host import ObservedState
from transom.windows.host.queries import Queries
from transom.windows.parts.adopted import IMPORTED, IMPORTED_LIMIT, Adopted
from transom.windows.planning import Plan
from transom.windows.planning.queries import again, beyond, combined, more

Planner = Callable[[ObservedState], Plan]
Fetches = Callable[[], Sequence[Secret]]
"""Gives the files for `curl.exe -K` where the host is to try them: to make them costs more than a pass that changes nothing."""


def converge(
    access: Access,
    host_keys: HostKeys,
    settings: PassSettings,
    questions: Queries,
    *,
    planner: Planner,
    dry_run: bool = False,
    fetches: Fetches = tuple,
    fetch_anyway: bool = False,
    admit: Admit = EVERYBODY,
) -> Coroutine[Any, Any, PassResult]:
    """A pass that makes the host what the planner wants over a connection of its own; its troubles are in the result.

    After a change, or with `fetch_anyway`, the host tries the `fetches`. `admit` is asked before a change: where it says no,
    nothing is changed.
    """
    turn = answering(False) if dry_run else admit
    work = _Convergence(settings, questions, planner, admit=turn, fetches=fetches, fetch_anyway=fetch_anyway)
    return work.run(access, host_keys, only_reads=dry_run)


class _Convergence(Pass[PassResult]):
    def __init__(
        self,
        settings: PassSettings,
        questions: Queries,
        planner: Planner,
        *,
        admit: Admit,
        fetches: Fetches,
        fetch_anyway: bool,
    ) -> None:
        super().__init__(settings, PassResult())
        self._questions = questions
        self._planner, self._admit = planner, admit
        self._fetches, self._fetch_anyway = fetches, fetch_anyway

    async def _steps(self, directory: Directory) -> None:
        asked = self._questions
        state = await gather(directory, asked)
        self._note(before=state)
        plan = self._planner(state)
        if wider := more(asked, plan):
            asked = combined(wider)
            state = merged(state, await gather(directory, beyond(asked, self._questions)))
            self._note(before=state)
            plan = self._planner(state)
        self._note(plan=plan)
        if not plan or not await self._admit():
            self._note(waiting=bool(plan))
            if not plan and self._fetch_anyway and (fetches := self._fetches()):
                self._note(fetched=await fetch(directory, fetches))
            await leave(directory, state)
            return
        self._note(begun=True)
        done = await carry_out(
            directory,
            plan,
            state,
            again(asked, state, dependants=self._questions.dependants),
            patience=self._settings.patience,
            fetches=self._fetches(),
            permit=self._settings.permit,
        )
        self._note(after=done.after, restarted=done.restarted, error=done.error, fetched=done.fetched)
        if done.error is None and (rest := self._planner(done.after)):
            self._note(error=NotConverged(differences(rest)))
        await leave(directory, done.after)


async def taken(access: Access, host_keys: HostKeys, settings: PassSettings) -> Adopted:
    """What the peer has noted on a host that is taken over from it, read before the first pass. Raises HostError."""
    async with opened(access, host_keys, settings, only_reads=True, doing=f"reading {IMPORTED}") as directory:
        imported = await directory.transport.read(IMPORTED.replace("\\", "/"), IMPORTED_LIMIT)
        return await understood(lambda: Adopted.of(imported), len(imported or b""))
