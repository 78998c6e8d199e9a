"""One pass on one host: gather, plan, and if necessary, change and gather again."""

from collections.abc import Callable, Sequence

from transom.hosts.errors import NotConverged
from transom.hosts.passes.base_pass import (
    EVERYBODY,
    Admit,
    Pass,
    PassResult,
    PassSettings,
    build_fixed_admit,
    describe_differences,
    open_directory,
    remove_directory_without_ledger,
)
from transom.hosts.ssh.directory import HostDirectory
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.ssh.ssh_client import Access
from transom.hosts.steps.change import apply_plan, run_fetches
from transom.hosts.steps.facts_parser import merge_states
from transom.hosts.steps.gather import gather, parse_with_budget
from transom.proxy.secret import Secret
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import Queries
from transom.windows.parts.adopted import IMPORTED, IMPORTED_LIMIT, AdoptedState
from transom.windows.planning.planner import Plan
from transom.windows.planning.queries import build_follow_up_queries, build_requery, merge_queries, subtract_queries

Planner = Callable[[ObservedState], Plan]
Fetches = Callable[[], Sequence[Secret]]
"""Gives the files for `curl.exe -K` where the host is to try them: to make them costs more than a pass that changes nothing."""


class Convergence(Pass[PassResult]):
    """A pass that makes the host what the planner wants.

    After a change, or with `fetch_anyway`, the host tries the `fetches`. `admit` is called before a change: if it returns
    False, as always with `dry_run`, the pass changes nothing.
    """

    def __init__(
        self,
        settings: PassSettings,
        questions: Queries,
        planner: Planner,
        *,
        dry_run: bool = False,
        fetches: Fetches = tuple,
        fetch_anyway: bool = False,
        admit: Admit = EVERYBODY,
    ) -> None:
        super().__init__(settings, PassResult(), only_reads=dry_run)
        self._questions = questions
        self._planner, self._admit = planner, build_fixed_admit(False) if dry_run else admit
        self._fetches, self._fetch_anyway = fetches, fetch_anyway

    async def _run_steps(self, directory: HostDirectory) -> None:
        queries = self._questions
        state = await gather(directory, queries)
        self._update_result(before=state)
        plan = self._planner(state)
        if wider := build_follow_up_queries(queries, plan):
            queries = merge_queries(wider)
            state = merge_states(state, await gather(directory, subtract_queries(queries, self._questions)))
            self._update_result(before=state)
            plan = self._planner(state)
        self._update_result(plan=plan)
        if not plan or not await self._admit():
            self._update_result(waiting=bool(plan))
            if not plan and self._fetch_anyway and (fetches := self._fetches()):
                self._update_result(fetched=await run_fetches(directory, fetches))
            await remove_directory_without_ledger(directory, state)
            return
        self._update_result(begun=True)
        done = await apply_plan(
            directory,
            plan,
            state,
            build_requery(queries, state, dependants=self._questions.dependants),
            patience=self._settings.patience,
            fetches=self._fetches(),
            permit=self._settings.permit,
        )
        self._update_result(after=done.after, restarted=done.restarted, error=done.error, fetched=done.fetched)
        if done.error is None and (rest := self._planner(done.after)):
            self._update_result(error=NotConverged(describe_differences(rest)))
        await remove_directory_without_ledger(directory, done.after)


async def read_adopted_state(access: Access, host_keys: HostKeys, settings: PassSettings) -> AdoptedState:
    """Read what the peer recorded on a host that Transom takes over, before the first pass. Raises HostError."""
    async with open_directory(access, host_keys, settings, only_reads=True, doing=f"reading {IMPORTED}") as directory:
        imported = await directory.transport.read(IMPORTED.replace("\\", "/"), IMPORTED_LIMIT)
        return await parse_with_budget(lambda: AdoptedState.from_file(imported), len(imported or b""))
