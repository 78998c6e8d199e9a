"""Whether a machine is as Transom takes Windows to be: a check at a time, and nothing of it stays there."""

import asyncio
import time
from collections.abc import Collection, Sequence

import msgspec

from transom.checked import Checked, Told
from transom.hosts.errors import HostError, ScriptFailed
from transom.hosts.passes import PassSettings, opened
from transom.hosts.passes.rehearsal import Rehearsal, rehearse
from transom.hosts.scripts.template import Script, render
from transom.hosts.ssh import Access
from transom.hosts.ssh.directory import Directory, local, remote
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.steps.checks import CHECKS, LONG_LINE, HostCheck
from transom.hosts.steps.gather import gather
from transom.hosts.steps.trials import CLEAR, trials
from transom.windows.host import ObservedState
from transom.windows.host.queries import LEDGER, Queries

_SEEN = 200
"""Letters of what a check saw."""
_CLEARING = "clear.cmd"
LIFE = "life"
"""The name of all that `rehearse` checks."""
_NODE = ("kubelet", "containerd")
"""The services by which a machine is somebody's node."""


class Verified(msgspec.Struct, frozen=True):
    """What became of the checks, in order, and the machine's build (`10.0.20348.2485`)."""

    checks: tuple[Checked, ...]
    build: str


async def verify(
    access: Access,
    host_keys: HostKeys,
    settings: PassSettings,
    told: Told = lambda _: None,
    *,
    rehearsal: Rehearsal | None = None,
    only: Collection[str] = (),
) -> Verified:
    """Every check, in order; each is `told` as soon as it is known. Raises HostError.

    Without a `rehearsal` nothing is changed. What a check needs lies in a directory of its own, which goes also when this is
    called off. With one, things are made and removed again, and on a machine that nobody uses a small worker goes through its
    whole life. A machine in use keeps what it has: what would touch it is not applicable. `only` names the checks that are made
    (`LIFE` for the worker's); empty: all.
    """
    before: Sequence[str] | None = None
    only_reads = rehearsal is None
    try:
        async with opened(access, host_keys, settings, only_reads=only_reads, doing="the verification") as directory:
            before = await directory.transport.names(remote())
            work = _Verification(directory, told, rehearsal, only)
            await work.run()
            await directory.restore(before)
    except (asyncio.CancelledError, HostError):
        # what was going on still runs, and holds its files, until its connection has ended; of two troubles the first is raised
        if before is not None:
            try:
                async with opened(access, host_keys, settings, only_reads=only_reads, doing="clearing up") as directory:
                    try:
                        if rehearsal is not None:
                            await _clear(directory)
                    finally:
                        await directory.restore(before)
            except HostError as error:
                told(Checked.of(CLEAR, "fail", str(error), 0))
        raise
    found = tuple(work.found)
    if rehearsal is not None and (LIFE in only or not only):
        found += await rehearse(access, host_keys, settings, rehearsal, work.used, told)
    return Verified(found, work.build)


class _Verification:
    def __init__(self, directory: Directory, told: Told, rehearsal: Rehearsal | None, only: Collection[str]) -> None:
        self._directory, self._told, self._only = directory, told, only
        self._rehearsal = rehearsal
        self._name = directory.new_name()
        self.found: list[Checked] = []
        self.used = self.build = ""

    async def run(self) -> None:
        """All checks. Raises HostError."""
        state = await gather(self._directory, Queries(services=_NODE))
        self.used, self.build = in_use(state), state.os_version
        every = CHECKS if self._rehearsal is None else (*CHECKS, *trials(self._name, self._rehearsal.authority))
        checks = [check for check in every if check.id in self._only or not self._only]
        await self._directory.put(self._name, [*_files(self._name, checks), Script("long.txt", LONG_LINE)])
        if self._rehearsal is not None:
            # what one that was killed has left
            await self._directory.transport.run(local(self._name, _CLEARING))
        for check in checks:
            self._note(await self._asked(check))
        if self._rehearsal is not None:
            self._note(await self._asked(CLEAR, _CLEARING))

    def _note(self, checked: Checked) -> None:
        self.found.append(checked)
        self._told(checked)

    async def _asked(self, check: HostCheck, script: str = "") -> Checked:
        begun = time.monotonic()
        if check.where == "unused" and self.used:
            return Checked.of(check, "not applicable", self.used, 0)
        ended = await self._directory.transport.run(local(self._name, script or f"{check.id}.cmd"))
        more = await check.ask(self._directory.transport, remote(self._name)) if check.ask else ()
        verdict, seen = check.judge((*ended.lines, *more))
        return Checked.of(check, verdict, seen[:_SEEN], time.monotonic() - begun)


def in_use(state: ObservedState) -> str:
    """Why a machine is somebody's; empty where it is nobody's yet."""
    if state.registry.key(LEDGER) is not None:
        return "the machine is in use: Transom works on it"
    return f"the machine is in use: it has the service {state.services[0].name}" if state.services else ""


def _files(name: str, checks: Sequence[HostCheck]) -> list[Script]:
    scripts = [Script(f"{check.id}.cmd", _script(name, check)) for check in checks]
    return [*scripts, Script(_CLEARING, _script(name, CLEAR)), *(Script(*file) for check in checks for file in check.files)]


def _script(name: str, check: HostCheck) -> bytes:
    return render("check.cmd", {"PASS": name, "LINES": check.lines})


async def _clear(directory: Directory) -> None:
    """Remove what checks have made that were cut off. Raises HostError."""
    name = directory.new_name()
    await directory.put(name, [Script(_CLEARING, _script(name, CLEAR))])
    ended = await directory.transport.run(local(name, _CLEARING))
    await directory.remove(name)
    verdict, seen = CLEAR.judge(ended.lines)
    if verdict != "pass":
        raise ScriptFailed(f"what was made for the verification is not all gone: {seen}")
