"""Give a host back: everything that the ledger holds is undone, and nothing of Transom stays. One pass, over one connection."""

import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from transom.hosts.errors import NotConverged
from transom.hosts.passes.base_pass import Pass, PassResult, PassSettings, describe_differences
from transom.hosts.scripts.template import BASE
from transom.hosts.ssh.directory import HostDirectory
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.ssh.ssh_client import Access
from transom.hosts.steps.change import apply_plan
from transom.hosts.steps.gather import gather, stat_files
from transom.windows import ledger
from transom.windows.host.host_state import DesiredState, ObservedState
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.planning import queries as questions
from transom.windows.planning.planner import Plan, plan
from transom.windows.registry.registry import Registry

NOTHING: Final = DesiredState(Registry(), payload="")
"""The desired state of a host without anything from Transom."""
_NO_EGRESS: Final = DesiredState(Registry())
"""The desired state of a host without Transom's proxy and CAs; installed payload files stay."""


class RemovalResult(PassResult, frozen=True):
    """The observations and changes of a pass.

    `remains` are items that could not be removed; they are not recorded elsewhere.
    """

    remains: tuple[str, ...] = ()


async def restore_host_state(
    access: Access,
    host_keys: HostKeys,
    settings: PassSettings,
    *,
    check: Callable[[ObservedState], None] = lambda _: None,
    payload: bool = True,
) -> RemovalResult:
    """Undo what the ledger of the host holds; without `payload`, proxy and trust alone. Its troubles are in the result.

    Services that had the proxy are restarted at once. Nothing hides what the host has booted with: variables of the machine
    environment are gone from its registry, and services see them until it boots. `check` sees what was read and raises a
    HostError where the host must not be changed.
    """
    return await _Removal(settings, NOTHING if payload else _NO_EGRESS, check).run(access, host_keys)


class _Removal(Pass[RemovalResult]):
    def __init__(self, settings: PassSettings, wish: DesiredState, check: Callable[[ObservedState], None]) -> None:
        super().__init__(settings, RemovalResult())
        self._wish, self._check = wish, check
        self._salt = secrets.token_bytes(16)

    async def _run_steps(self, directory: HostDirectory) -> None:
        queries = Queries()
        state = await gather(directory, queries)
        self._update_result(before=state)
        if ledger.read(state.registry):
            queries = self._widen_queries(queries, state, Plan())
            state = await self._gather_state(directory, queries)
            if (wider := self._widen_queries(queries, state, self._build_plan(state))) != queries:
                queries = wider
                state = await self._gather_state(directory, queries)
        self._update_result(before=state)
        self._check(state)
        planned = self._build_plan(state)
        self._update_result(plan=planned)
        if planned:
            state = await self._apply_removal(directory, planned, state, queries)
        if self.result.error is None and state.registry.find_key(LEDGER) is None and not await directory.remove_base():
            self._update_result(remains=(*self.result.remains, BASE))

    async def _apply_removal(
        self, directory: HostDirectory, planned: Plan, state: ObservedState, queries: Queries
    ) -> ObservedState:
        self._update_result(begun=True)
        patience, permit = self._settings.patience, self._settings.permit
        done = await apply_plan(
            directory, planned, state, questions.build_requery(queries, state), patience=patience, permit=permit
        )
        after = await self._probe_files(directory, done.after)
        self._update_result(after=after, restarted=done.restarted, error=done.error, remains=done.remains)
        if done.error is None and (rest := self._build_plan(after)):
            self._update_result(error=NotConverged(describe_differences(rest)))
        return after

    async def _gather_state(self, directory: HostDirectory, queries: Queries) -> ObservedState:
        return await self._probe_files(directory, await gather(directory, queries))

    async def _probe_files(self, directory: HostDirectory, state: ObservedState) -> ObservedState:
        recorded = ledger.read(state.registry).installed
        return await stat_files(directory.transport, state, tuple(recorded.files), recorded.directories)

    def _widen_queries(self, queries: Queries, state: ObservedState, planned: Plan) -> Queries:
        """Widen the queries by what one more gather must read; a removal does not need the boot number."""
        recorded = ledger.read(state.registry)
        restarts = bool(recorded.environment.services or recorded.installed.services or recorded.trust)
        services = Queries(services=tuple(recorded.installed.services), dependants=restarts)
        more = questions.build_follow_up_queries(queries, planned) or queries
        return msgspec.structs.replace(questions.merge_queries(queries, more, services), boot=False)

    def _build_plan(self, state: ObservedState) -> Plan:
        return plan(self._wish, state, self._salt, manager=self._settings.manager)
