"""One pass on one host: gather, plan, and where there is something to do, change and gather again."""

from collections.abc import Callable, Sequence

from transom.hosts.answers import merged
from transom.hosts.change import carry_out, fetch
from transom.hosts.connection import Access
from transom.hosts.directory import Directory
from transom.hosts.errors import NotConverged
from transom.hosts.gather import gather
from transom.hosts.known_hosts import HostKeys
from transom.hosts.passes import Pass, PassResult, Settings, differences, leave
from transom.proxy.secret import Secret
from transom.windows.gathering import Questions
from transom.windows.plan import Plan
from transom.windows.questions import again, beyond, combined
from transom.windows.state import HostState

Planner = Callable[[HostState], Plan]
Missing = Callable[[HostState, Plan], Questions | None]
"""What has to be known before this plan can be relied on; None where it is enough. It is asked once."""


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
    work = _Convergence(settings, questions, planner, missing, admit=(lambda: False) if dry_run else admit, fetches=fetches)
    work.fetch_anyway = fetch_anyway
    return await work.run(access, host_keys, only_reads=dry_run)


class _Convergence(Pass[PassResult]):
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
        super().__init__(settings, PassResult())
        self._questions = questions
        self._planner, self._missing, self._admit, self._fetches = planner, missing, admit, fetches
        self.fetch_anyway = False

    async def _steps(self, directory: Directory) -> None:
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
