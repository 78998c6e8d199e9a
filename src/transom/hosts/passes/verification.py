"""Whether a machine is as Transom takes Windows to be: a check at a time, and nothing of it stays there."""

import asyncio
import time
from collections.abc import Collection, Sequence

import msgspec

from transom.common.check_results import CheckResult, Told
from transom.common.clean_up import run_to_end
from transom.common.escaping import escape_unprintable
from transom.hosts.errors import HostError, ScriptFailed
from transom.hosts.passes.base_pass import PassSettings, open_directory, remove_directory_without_ledger
from transom.hosts.passes.rehearsal import (
    GIVING_BACK_SECONDS,
    Rehearsal,
    is_unfinished_rehearsal,
    run_rehearsal,
    undo_rehearsal,
)
from transom.hosts.scripts.template import Script, read_template, render_script
from transom.hosts.ssh.connections import GOODBYE_SECONDS
from transom.hosts.ssh.directory import CLEARING_SECONDS, HostDirectory, format_sftp_path, format_windows_path
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.ssh.ssh_client import Access
from transom.hosts.steps.change import LEAVING_SECONDS
from transom.hosts.steps.change_checks import CLEAR, build_change_checks
from transom.hosts.steps.checks import CHECKS, LONG_LINE
from transom.hosts.steps.gather import gather
from transom.hosts.steps.verification_check import HostCheck
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import LEDGER, Queries

_CLEARING_SECONDS, _CLEARING_CHANGES_SECONDS = 20.0, 75.0
"""Seconds in which a verification that was called off clears up; things that it made take longer: a service may be slow."""
_SLACK_SECONDS = 3.0
_SEEN = 200
"""Letters of what a check saw."""
_CLEARING, _ORIGIN = "clear.cmd", "origin.cmd"
_STAND_IN = "stand-in "
LIFE = "life"
"""The name of all that `rehearse` checks."""
_NODE = ("kubelet", "containerd")
"""The services that show that a machine is already a node."""


class SystemIdentity(msgspec.Struct, frozen=True):
    """Which Windows answered, in its own words; `stand_in` says what answered in the place of Windows."""

    edition: str = ""
    """EditionID (`ServerDatacenter`)."""
    language: str = ""
    """InstallLanguage, a LANGID in hex (`0407`)."""
    ssh_server: str = ""
    stand_in: str = ""
    """`simulated` or `Wine`; empty: Windows."""


class VerificationResult(msgspec.Struct, frozen=True):
    """What became of the checks, in order, and the machine's build (`10.0.20348.2485`)."""

    checks: tuple[CheckResult, ...]
    build: str
    origin: SystemIdentity = SystemIdentity()


async def verify_host(
    access: Access,
    host_keys: HostKeys,
    settings: PassSettings,
    report: Told = lambda _: None,
    *,
    rehearsal: Rehearsal | None = None,
    only: Collection[str] = (),
) -> VerificationResult:
    """Run every check, in order; each result is reported at once. Raises HostError.

    Without a `rehearsal`, nothing is changed. The checks use a directory of their own, which is also removed after a
    cancellation, within `stop_seconds`. With a `rehearsal`, items are created and removed again, and on an unused machine a
    small worker goes through its whole life. A machine in use is not changed: such checks are not applicable. `only` names
    the checks to run (`LIFE` for the worker's); empty: all.
    """
    work = _Verification(access, host_keys, settings, report, rehearsal, only)
    if not await work.run():
        await undo_rehearsal(access, host_keys, settings)
        await work.run()
    verified = tuple(work.results)
    if rehearsal is not None and (LIFE in only or not only):
        verified += await run_rehearsal(access, host_keys, settings, rehearsal, work.used, report)
    return VerificationResult(verified, work.build, work.origin)


def estimate_stop_seconds(*, change: bool) -> float:
    """Return within how many seconds a verification that is called off has ended; with `change` it makes things.

    A pass of the worker's life that is cut off, and one that gives the machine back, each have the time of a script.
    """
    last = CLEARING_SECONDS + 2 * GOODBYE_SECONDS + _SLACK_SECONDS
    if not change:
        return _CLEARING_SECONDS + last
    return max(_CLEARING_CHANGES_SECONDS, GIVING_BACK_SECONDS + 2 * LEAVING_SECONDS) + last


class _Verification:
    def __init__(
        self,
        access: Access,
        host_keys: HostKeys,
        settings: PassSettings,
        report: Told,
        rehearsal: Rehearsal | None,
        only: Collection[str],
    ) -> None:
        self._host = (access, host_keys, settings)
        self._told, self._rehearsal, self._only = report, rehearsal, only
        self.results: list[CheckResult] = []
        self.used = self.build = ""
        self.origin = SystemIdentity()

    async def run(self) -> bool:
        """Make all checks; False where a rehearsal that was killed has to be undone first. Raises HostError."""
        before: Sequence[str] | None = None
        try:
            async with open_directory(*self._host, only_reads=self._rehearsal is None, doing="the verification") as directory:
                before = await directory.transport.list_names(format_sftp_path())
                state = await gather(directory, Queries(services=_NODE))
                whole = await self._run_checks(directory, state)
                await directory.remove_added_files(before)
                # a killed run may have left it on a host that is not managed
                await remove_directory_without_ledger(directory, state)
                return whole
        except (asyncio.CancelledError, HostError):
            # of two troubles the first is raised
            if before is not None:
                await self._remove_leftovers(before)
            raise

    async def _remove_leftovers(self, before: Sequence[str]) -> None:
        """Remove everything created since `before`, over a separate connection.

        Started scripts still run, and keep their files open, until their connection has ended.
        """
        seconds = _CLEARING_SECONDS if self._rehearsal is None else _CLEARING_CHANGES_SECONDS

        async def clear() -> None:
            async with open_directory(*self._host, only_reads=self._rehearsal is None, doing="clearing up") as directory:
                try:
                    if self._rehearsal is not None:
                        await _run_clearing_script(directory)
                finally:
                    await directory.remove_added_files(before)

        started_at = time.monotonic()
        try:
            await run_to_end(clear(), seconds)
        except (HostError, TimeoutError) as error:
            why = str(error) if isinstance(error, HostError) else f"it was not done within {seconds:g} s"
            self._told(CheckResult.from_claim(CLEAR, "fail", why, time.monotonic() - started_at))
        else:
            if self._rehearsal is not None:
                self._told(CheckResult.from_claim(CLEAR, "pass", "cleared", time.monotonic() - started_at))

    async def _run_checks(self, directory: HostDirectory, state: ObservedState) -> bool:
        self._directory, self._name = directory, directory.generate_name()
        if self._rehearsal is not None and is_unfinished_rehearsal(state):
            return False
        self.used, self.build = describe_use(state), state.os_version
        every = CHECKS if self._rehearsal is None else (*CHECKS, *build_change_checks(self._name, self._rehearsal.authority))
        checks = [check for check in every if check.id in self._only or not self._only]
        await self._directory.put_files(self._name, [*_build_scripts(self._name, checks), Script("long.txt", LONG_LINE)])
        origin_result = await self._directory.transport.run(format_windows_path(self._name, _ORIGIN))
        self.origin = parse_origin(origin_result.lines, state.ssh_server)
        if self._rehearsal is not None:
            # what one that was killed has left
            await self._directory.transport.run(format_windows_path(self._name, _CLEARING))
        for check in checks:
            self._record_result(await self._run_check(check))
        if self._rehearsal is not None:
            self._record_result(await self._run_check(CLEAR, _CLEARING))
        return True

    def _record_result(self, checked: CheckResult) -> None:
        self.results.append(checked)
        self._told(checked)

    async def _run_check(self, check: HostCheck, script: str = "") -> CheckResult:
        started_at = time.monotonic()
        if check.where == "unused" and self.used:
            return CheckResult.from_claim(check, "not applicable", self.used, 0)
        ended = await self._directory.transport.run(format_windows_path(self._name, script or f"{check.id}.cmd"))
        more = await check.ask(self._directory.transport, format_sftp_path(self._name)) if check.ask else ()
        verdict, seen = check.judge((*ended.lines, *more))
        return CheckResult.from_claim(check, verdict, seen[:_SEEN], time.monotonic() - started_at)


def parse_origin(lines: Sequence[str], ssh_server: str) -> SystemIdentity:
    """Return which Windows a host is, from what `origin.cmd` prints: values as `reg query` shows them, and a stand-in."""
    values = {words[0]: words[2] for words in map(str.split, lines) if len(words) == 3 and words[1] == "REG_SZ"}
    stand_in = next((line.removeprefix(_STAND_IN) for line in lines if line.startswith(_STAND_IN)), "")
    edition, language = (escape_unprintable(values.get(name, "")[:_SEEN]) for name in ("EditionID", "InstallLanguage"))
    return SystemIdentity(edition, language, ssh_server.removeprefix("SSH-2.0-"), escape_unprintable(stand_in[:_SEEN]))


def describe_use(state: ObservedState) -> str:
    """Describe how a machine is in use; empty if it is not."""
    if state.registry.find_key(LEDGER) is not None:
        return "the machine is in use: Transom works on it"
    return f"the machine is in use: it has the service {state.services[0].name}" if state.services else ""


def _build_scripts(name: str, checks: Sequence[HostCheck]) -> list[Script]:
    scripts = [Script(f"{check.id}.cmd", _render_check(name, check)) for check in checks]
    scripts += [
        Script(_CLEARING, _render_check(name, CLEAR)),
        Script(_ORIGIN, _render_script(name, read_template("origin.cmd"))),
    ]
    return [*scripts, *dict.fromkeys(Script(*file) for check in checks for file in check.files)]


def _render_check(name: str, check: HostCheck) -> bytes:
    return _render_script(name, check.lines)


def _render_script(name: str, lines: str) -> bytes:
    return render_script("check.cmd", {"PASS": name, "LINES": lines})


async def _run_clearing_script(directory: HostDirectory) -> None:
    """Remove what checks have made that were cut off. Raises HostError."""
    name = directory.generate_name()
    await directory.put_files(name, [Script(_CLEARING, _render_check(name, CLEAR))])
    ended = await directory.transport.run(format_windows_path(name, _CLEARING))
    await directory.remove_subdirectory(name)
    verdict, seen = CLEAR.judge(ended.lines)
    if verdict != "pass":
        raise ScriptFailed(f"what was made for the verification is not all gone: {seen}")
