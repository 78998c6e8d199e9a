"""Give a host back: everything that the ledger holds is undone, and nothing of Transom stays. One pass, over one connection."""

import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from transom.hosts.errors import NotConverged
from transom.hosts.passes import Pass, PassResult, PassSettings, differences
from transom.hosts.scripts.template import BASE
from transom.hosts.ssh import Access
from transom.hosts.ssh.directory import Directory
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.steps.change import carry_out
from transom.hosts.steps.gather import gather, probed
from transom.windows import ledger
from transom.windows.host import DesiredState, ObservedState
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.planning import Plan, plan
from transom.windows.planning import queries as questions
from transom.windows.registry import Registry

NOTHING: Final = DesiredState(Registry(), payload="")
"""The wish that a host has nothing of ours."""
_NO_EGRESS: Final = DesiredState(Registry())
"""The wish that a host has no proxy and no trust of ours; what a payload brought stays."""


class Removed(PassResult, frozen=True):
    """What a pass found and did. `remains` is what could not be removed, and is no longer known to anybody but its reader."""

    remains: tuple[str, ...] = ()


async def remove(
    access: Access,
    host_keys: HostKeys,
    settings: PassSettings,
    *,
    check: Callable[[ObservedState], None] = lambda _: None,
    payload: bool = True,
) -> Removed:
    """Undo what the ledger of the host holds; without `payload`, proxy and trust alone. Its troubles are in the result.

    Services that had the proxy are restarted at once. Nothing hides what the host has booted with: variables of the machine
    environment are gone from its registry, and services see them until it boots. `check` sees what was read and raises a
    HostError where the host must not be changed.
    """
    return await _Removal(settings, NOTHING if payload else _NO_EGRESS, check).run(access, host_keys)


class _Removal(Pass[Removed]):
    def __init__(self, settings: PassSettings, wish: DesiredState, check: Callable[[ObservedState], None]) -> None:
        super().__init__(settings, Removed())
        self._wish, self._check = wish, check
        self._salt = secrets.token_bytes(16)

    async def _steps(self, directory: Directory) -> None:
        asked = Queries()
        state = await gather(directory, asked)
        self._note(before=state)
        if ledger.read(state.registry):
            asked = self._wider(asked, state, Plan())
            state = await self._read(directory, asked)
            if (wider := self._wider(asked, state, self._planned(state))) != asked:
                asked = wider
                state = await self._read(directory, asked)
        self._note(before=state)
        self._check(state)
        planned = self._planned(state)
        self._note(plan=planned)
        if planned:
            state = await self._change(directory, planned, state, asked)
        if self.result.error is None and state.registry.key(LEDGER) is None and not await directory.dismantle():
            self._note(remains=(*self.result.remains, BASE))

    async def _change(self, directory: Directory, planned: Plan, state: ObservedState, asked: Queries) -> ObservedState:
        self._note(begun=True)
        patience, permit = self._settings.patience, self._settings.permit
        done = await carry_out(directory, planned, state, questions.again(asked, state), patience=patience, permit=permit)
        after = await self._probed(directory, done.after)
        self._note(after=after, restarted=done.restarted, error=done.error, remains=done.remains)
        if done.error is None and (rest := self._planned(after)):
            self._note(error=NotConverged(differences(rest)))
        return after

    async def _read(self, directory: Directory, asked: Queries) -> ObservedState:
        return await self._probed(directory, await gather(directory, asked))

    async def _probed(self, directory: Directory, state: ObservedState) -> ObservedState:
        recorded = ledger.read(state.registry).installed
        return await probed(directory.transport, state, tuple(recorded.files), recorded.directories)

    def _wider(self, asked: Queries, state: ObservedState, planned: Plan) -> Queries:
        """What has to be known as well, in one more reading. Which boot it is decides nothing here."""
        recorded = ledger.read(state.registry)
        restarts = bool(recorded.environment.services or recorded.installed.services or recorded.trust)
        services = Queries(services=tuple(recorded.installed.services), dependants=restarts)
        more = questions.more(asked, planned) or asked
        return msgspec.structs.replace(questions.combined(asked, more, services), boot=False)

    def _planned(self, state: ObservedState) -> Plan:
        return plan(self._wish, state, self._salt, manager=self._settings.manager)
