"""Carry out a plan on a host: files, one script, and what became of it."""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from transom.hosts.errors import (
    FilesInUse,
    Held,
    HostError,
    ImportFailed,
    Overtaken,
    PingBlocked,
    ProfileNotWritten,
    RestartsFailed,
    ScriptFailed,
    Superseded,
)
from transom.hosts.owner import Owner
from transom.hosts.scripts import host_scripts, install_result, install_script, service_result
from transom.hosts.scripts.host_scripts import SCAN_SECONDS, ServiceTimeouts
from transom.hosts.scripts.results import ResultWord
from transom.hosts.scripts.template import BASE, Script
from transom.hosts.ssh.directory import HostDirectory, format_sftp_path, format_windows_path
from transom.hosts.ssh.transport import ScriptResult
from transom.hosts.steps.gather import collect_answers, install_gather_script
from transom.proxy.secret import Secret
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.nodes.fetch import FetchAttempt
from transom.windows.planning.planner import Plan
from transom.windows.registry import reg

_RESULT_LIMIT = 32768
_FETCHED = re.compile(r"[0-9]{1,4} -?[0-9]{1,10} [0-9]{1,10} [0-9]{1,10}")
_FORMS = {
    ResultWord.SUPERSEDED: re.compile(r"[0-9]{1,10}"),
    ResultWord.STUCK: re.compile(r"\S{0,20}- \S{0,20}- \S{0,20}- .+"),
    ResultWord.UNSTARTED: re.compile(r"\S{0,20}- \S{0,20}- \S{0,20}- .+"),
    ResultWord.LOST: re.compile(r"\S{0,20}- \S{0,20}- .+"),
}
"""The format of the rest of the lines that begin with these words."""
_BOOT = re.compile(r"0x[0-9A-Fa-f]{1,16}")
_BOOT_FOR = frozenset({"containers", "name"})
_NAME_LENGTH = 256
"""Letters of what another pass is shown as."""
_UNFINISHED = "the restarts have not ended; they continue automatically, and the next pass checks them again"
LEAVING_SECONDS = 30.0
"""Seconds that a script may still take when the pass is called off, and its directory to be removed."""


class HostChange(msgspec.Struct, frozen=True):
    """The result of a plan: the state after it, the restarted services, and the error on the host.

    `boot` has the reasons why the host must reboot before the next steps: `containers`, `name`. `remains` are items that
    could not be removed.
    """

    after: ObservedState
    restarted: tuple[str, ...]
    error: HostError | None
    fetched: tuple[FetchAttempt, ...] | None = ()
    """The tries of curl.exe; None where the host has none."""
    boot: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()


async def apply_plan(
    directory: HostDirectory,
    plan: Plan,
    actual: ObservedState,
    questions: Queries,
    *,
    patience: ServiceTimeouts,
    fetches: Sequence[Secret] = (),
    permit: Callable[[], object] = lambda: None,
) -> HostChange:
    """Apply a plan over one exec channel: lock, import, restart, gather. Raises HostError if the lock fails.

    If it is cancelled before the script runs, nothing is changed; afterwards it waits for the script's end, at most 30 s.
    The restarts continue in any case. `permit` is called right before the script runs; its exceptions are raised here.
    `fetches` are files for `curl.exe -K`, tried after the restarts.
    """
    owner = directory.owner
    name = directory.generate_name()
    pass_id = name.rpartition("-")[2]
    gathering = await install_gather_script(directory, questions)
    files = [host_scripts.build_change_script(plan, actual, owner, pass_id, gathering, patience=patience, fetches=len(fetches))]
    if plan.edits:
        files.append(Script("change.reg", reg.render(plan.edits)))
    if host_scripts.needs_background_job(plan):
        files.append(host_scripts.build_task_file(name))
    files += (*host_scripts.iter_permission_files(plan, actual.registry), *install_script.iter_script_files(plan))
    files += host_scripts.iter_written_files(plan)
    files += _build_fetch_files(fetches)
    await directory.put_files(name, files)
    try:
        permit()
    except BaseException:
        await directory.remove_subdirectory(name)
        raise
    ended = await _run_change_script(directory, name)
    if not ended.succeeded:
        failure = _ChangeResult.from_bytes(
            await directory.transport.read(format_sftp_path(name, "result.txt"), _RESULT_LIMIT) or b""
        )
        if failure.has_word(ResultWord.UNFINISHED):
            # the job still reads its script
            raise RestartsFailed(_UNFINISHED)
        await directory.remove_subdirectory(name)
        raise failure.build_not_started_error(owner)
    collected = await collect_answers(directory, ended, "change.cmd")
    result = _ChangeResult.from_bytes(collected.answers.get_change_result())
    boot = tuple(word for text in result.list_values(ResultWord.MUST_BOOT) for word in text.split() if word in _BOOT_FOR)
    trouble = result.find_change_error(plan, patience)
    restarted = tuple(dict.fromkeys(result.list_values(ResultWord.RESTARTED)))
    after = msgspec.structs.replace(await collected.parse_state(questions), dependencies=actual.dependencies)
    return HostChange(
        after, restarted, trouble, result.list_fetched(len(fetches)), boot, result.list_values(ResultWord.REMAINS)
    )


async def run_fetches(directory: HostDirectory, fetches: Sequence[Secret]) -> tuple[FetchAttempt, ...] | None:
    """Run the fetches on the host, without a change: one exec channel. None if it has no curl.exe. Raises HostError."""
    name = directory.generate_name()
    await directory.put_files(name, (host_scripts.build_fetch_script(name, len(fetches)), *_build_fetch_files(fetches)))
    ended = await directory.transport.run(format_windows_path(name, "fetch.cmd"))
    await directory.remove_subdirectory(name)
    return _ChangeResult(ended.lines).list_fetched(len(fetches))


def _build_fetch_files(fetches: Sequence[Secret]) -> list[Script]:
    return [Script(f"fetch-{number}.txt", fetch.reveal().encode()) for number, fetch in enumerate(fetches)]


async def _run_change_script(directory: HostDirectory, name: str) -> ScriptResult:
    directory.is_changing = True
    running = asyncio.ensure_future(directory.transport.run(format_windows_path(name, "change.cmd")))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        # what became of the script otherwise, the next pass reads on the host
        with suppress(HostError, TimeoutError):
            async with asyncio.timeout(LEAVING_SECONDS):
                ended = await asyncio.shield(running)
                if ended.succeeded:
                    await directory.remove_subdirectory(name)
        raise
    finally:
        running.cancel()


class _ChangeResult:
    """The lines of `result.txt`: a word each, and what it is about. Raises ScriptFailed for a line that no script writes."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        for word, form in _FORMS.items():
            if not all(map(form.fullmatch, self.list_values(word))):
                raise ScriptFailed(f"the output of the change script cannot be parsed: line `{word} …`")

    @classmethod
    def from_bytes(cls, text: bytes) -> "_ChangeResult":
        return cls([line.strip() for line in text.decode("ascii", "replace").splitlines()])

    def has_word(self, word: ResultWord) -> bool:
        return word in self._lines

    def list_values(self, word: ResultWord) -> tuple[str, ...]:
        return tuple(line.removeprefix(f"{word} ") for line in self._lines if line.startswith(f"{word} "))

    def _split_at_word(self, word: ResultWord) -> "tuple[_ChangeResult, _ChangeResult]":
        at = self._lines.index(word)
        return _ChangeResult(self._lines[:at]), _ChangeResult(self._lines[at:])

    def list_fetched(self, tries: int) -> tuple[FetchAttempt, ...] | None:
        """List the results of the first `tries` fetches; None if the host has no curl.exe."""
        if self.has_word(ResultWord.NO_CURL):
            return None
        fetches = [
            FetchAttempt(*map(int, text.split())) for text in self.list_values(ResultWord.FETCHED) if _FETCHED.fullmatch(text)
        ]
        return tuple(item for item in fetches if item.endpoint < tries)

    def build_not_started_error(self, owner: Owner) -> HostError:
        """Why nothing was begun, or nothing is known of what was."""
        if self.has_word(ResultWord.HELD):
            boot = "".join(self.list_values(ResultWord.BOOT))
            holder = "".join(self.list_values(ResultWord.HOLDER))[:_NAME_LENGTH]
            return Held(holder or "a pass that does not say whose it is", int(boot, 16) if _BOOT.fullmatch(boot) else None)
        if self.has_word(ResultWord.FILES_IN_USE):
            return FilesInUse(
                f"a program has new files in {BASE} open, for more than {SCAN_SECONDS} s: exclude {BASE} from the virus "
                "scanner of the host. Nothing was changed"
            )
        if self.has_word(ResultWord.PING_BLOCKED):
            return PingBlocked(
                r"C:\Windows\System32\ping.exe, with which Transom's scripts wait for services, does not run. Allow it for "
                "administrators in the policy (AppLocker, WDAC); nothing was changed"
            )
        if seen := self.list_values(ResultWord.SUPERSEDED):
            return Superseded(owner.generation or 0, int(seen[0]))
        if self.has_word(ResultWord.OVERTAKEN):
            return Overtaken()
        if self.has_word(ResultWord.BEGUN):
            return ScriptFailed("the change was carried out, and the host could not be read afterwards (is the disk full?)")
        if self.has_word(ResultWord.TAKEN):
            return ScriptFailed("another pass took the host over; nothing was changed by this one")
        return ScriptFailed("the script that changes the host did not begin (is the disk full?)")

    def find_change_error(self, plan: Plan, patience: ServiceTimeouts) -> HostError | None:
        """Return the error after the host was locked, or None."""
        if self.has_word(ResultWord.REVERSING):
            if (reversal := plan.install.reversal) is None:
                return ScriptFailed("the script reports that it reverted the change, which was not requested")
            first, then = self._split_at_word(ResultWord.REVERSING)
            return install_result.build_reversal_error(first.list_values, then.list_values, plan, reversal, patience)
        if self.has_word(ResultWord.UNCLOSED):
            return ImportFailed(
                rf"{LEDGER} could not be closed to ordinary users: neither Set-Acl nor regini.exe did it. Nothing was changed"
            )
        if failed := install_result.find_install_error(self.list_values, plan):
            return failed
        if self.has_word(ResultWord.NOT_IMPORTED):
            return ImportFailed("reg import did not take the change; the user must be an administrator with access to the keys")
        if self.has_word(ResultWord.NO_JOB):
            return RestartsFailed(
                "the restarts could not be started: Windows ran neither the task TransomRestart nor a service of that name"
            )
        if failed := service_result.find_service_error(self.list_values, plan, patience):
            return failed
        if host_scripts.needs_background_job(plan) and not self.has_word(ResultWord.ENDED):
            return RestartsFailed(
                "the restarts have not ended; they continue automatically, and the next pass checks them again"
            )
        if unwritten := self.list_values(ResultWord.UNWRITTEN):
            return ProfileNotWritten(
                f"{', '.join(unwritten)} could not be written: it is read-only, a program has it open, or it changed after it "
                "was read. The rest of the host is done, and the next pass tries again"
            )
        return None
