"""One pass over one host, from its target to the result: read the host, plan, change what differs, and read it again."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from transom.apply.errors import CredentialsWithheld
from transom.apply.report import HostReport, build_host_report
from transom.apply.target import Target, ensure_api_server_known, ensure_settings_exist
from transom.hosts.errors import AuthenticationRefused, HostError
from transom.hosts.passes import key_move
from transom.hosts.passes.base_pass import EVERYBODY, Admit, PassResult, PassSettings
from transom.hosts.passes.converge import Convergence
from transom.hosts.ssh.known_hosts import HostKeys
from transom.windows.host.host_state import ObservedState, Step
from transom.windows.host.queries import Queries
from transom.windows.nodes import fetch
from transom.windows.nodes.windows_instance import PREVIOUS
from transom.windows.parts.adopted import AdoptedState
from transom.windows.planning import queries
from transom.windows.planning.planner import Plan, build_desired_settings, plan

_KEY_MIGRATION: Final = Step("file", key_move.KEYS, "replace", f"{PREVIOUS} opens the host, and the key after it does not")


def build_convergence(
    target: Target,
    settings: PassSettings,
    *,
    dry_run: bool = False,
    change_expected: bool = True,
    check: Callable[[ObservedState], None] = lambda _: None,
    fetch_anyway: bool = False,
    admit: Admit = EVERYBODY,
    adopted: AdoptedState | None = None,
) -> Convergence:
    """Return the pass that configures a host. The errors of the host are in the pass's result.

    With `dry_run` the pass changes nothing. If `change_expected` is false, it reads less at first, and a change costs a second
    gather. With `fetch_anyway` the host tries the readiness endpoints even if nothing changes.

    `check` gets each state that a plan is made from. It raises a HostError if the host must not be changed; `run` raises all
    other exceptions of `check` that `settings.outer` names. `admit` is called before a change: if it returns False, the host
    is only read. `adopted` is what another operator left that had the host before.
    """
    when, salt = target.choose_restart_time(), secrets.token_bytes(16)
    desired = build_desired_settings(target.egress)
    questions = queries.build_initial_queries(desired, change_expected=change_expected, boot=when != "now")
    if adopted is not None:
        questions = queries.merge_queries(questions, Queries(environment=True, boot=True))

    def make_plan(actual: ObservedState) -> Plan:
        check(actual)
        ensure_settings_exist(target.egress, actual)
        ensure_api_server_known(target.egress, actual)
        return plan(desired, actual, salt, when, taken=adopted, manager=settings.manager)

    return Convergence(
        settings,
        questions,
        make_plan,
        dry_run=dry_run,
        fetches=partial(fetch.build_curl_configurations, target.egress),
        fetch_anyway=fetch_anyway,
        admit=admit,
    )


class PassObserver:
    """Observes the passes of a command. Each method does nothing unless a subclass overrides it."""

    def on_start(self, target: Target) -> None:
        """Handle the start of a pass."""

    def on_change(self, target: Target) -> None:
        """Handle the start of a change to a host, once it is admitted."""

    def on_end(self, target: Target, result: PassResult | None) -> None:
        """Handle the end of a pass; without a result an exception has ended it."""


@dataclass(frozen=True)
class HostPass:
    """Runs passes of one kind over hosts, with their errors in the results.

    A host is known by one of `host_keys`; `settings` say who works, and the time limits. With `dry_run` hosts are only read.
    With `migrate_keys` a pass moves a host that only an earlier key opens to the key of its Secret first. The operator does not
    need that: the status of a host tells it which key opens the host.
    """

    host_keys: HostKeys
    settings: PassSettings
    dry_run: bool = False
    migrate_keys: bool = False
    observers: tuple[PassObserver, ...] = ()

    async def run(self, target: Target, admit: Admit = EVERYBODY) -> PassResult:
        """Run one pass. A host that is paused, or whose settings are withheld, is not connected to.

        `admit` is called before a change: if it returns False, the host is only read.
        """

        async def admit_change() -> bool:
            if not await admit():
                return False
            for observer in self.observers:
                observer.on_change(target)
            return True

        for observer in self.observers:
            observer.on_start(target)
        result: PassResult | None = None
        try:
            if target.instance.spec.paused:
                result = PassResult()
            elif target.withheld is not None:
                result = PassResult(error=CredentialsWithheld(target.withheld))
            else:
                first = _without_previous_keys(target) if self.migrate_keys else target
                result = await self._build(first, admit_change).run(first.access, self.host_keys)
                if self.migrate_keys and target.previous and isinstance(result.error, AuthenticationRefused):
                    result = await self._run_with_previous_keys(target, admit_change)
            return result
        finally:
            for observer in self.observers:
                observer.on_end(target, result)

    async def run_and_report(self, target: Target) -> HostReport:
        """Run one pass over a host that waits for no other host, and return its report."""
        return build_host_report(target, await self.run(target), dry_run=self.dry_run)

    async def _run_with_previous_keys(self, target: Target, admit: Admit) -> PassResult:
        """Move a host to its key and run the pass; with `dry_run` read it with an earlier key."""
        if self.dry_run:
            result = await self._build(target, admit).run(target.access, self.host_keys)
            if isinstance(result.error, AuthenticationRefused):
                return result
            return msgspec.structs.replace(result, first=(_KEY_MIGRATION,))
        if not await admit():
            return PassResult(waiting=True)
        moved = _without_previous_keys(target)
        try:
            await key_move.rotate_ssh_key(moved.access, target.previous, self.host_keys, self.settings)
        except HostError as error:
            return PassResult(error=error, begun=isinstance(error, key_move.AGAINST_THE_KEY))
        result = await self._build(moved, EVERYBODY).run(moved.access, self.host_keys)
        return msgspec.structs.replace(result, first=(_KEY_MIGRATION,), begun=True)

    def _build(self, target: Target, admit: Admit) -> Convergence:
        return build_convergence(target, self.settings, dry_run=self.dry_run, admit=admit)


def _without_previous_keys(target: Target) -> Target:
    return msgspec.structs.replace(target, previous=())
