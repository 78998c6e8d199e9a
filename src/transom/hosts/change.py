"""Carry out a plan on a host: files, one script, and what became of it."""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from transom.hosts import install_result, install_script, script
from transom.hosts.directory import Directory, local, remote
from transom.hosts.errors import Held, HostError, ImportFailed, RestartsFailed, ScriptFailed, Superseded
from transom.hosts.gather import collect, install
from transom.hosts.owner import Owner
from transom.hosts.script import Patience
from transom.hosts.template import Script
from transom.hosts.transport import Run
from transom.proxy.secret import Secret
from transom.windows import reg
from transom.windows.fetch import Fetched
from transom.windows.gathering import Questions
from transom.windows.plan import Plan
from transom.windows.state import HostState

_RESULT_LIMIT = 32768
_FETCHED = re.compile(r"\d+ -?\d+ \d+ \d+")
_UNFINISHED = "the restarts have not ended; they go on by themselves, and the next pass looks at them again"
_BEFORE_LEAVING = 30
"""Seconds that a script may still take when the pass is called off."""


class Change(msgspec.Struct, frozen=True):
    """What became of a plan: the state after, the services seen running again, and what went wrong on the host.

    `boot` says for what the host has to boot before it goes on: `containers`, `name`. `remains` is what could not be removed.
    """

    after: HostState
    restarted: tuple[str, ...]
    error: HostError | None
    fetched: tuple[Fetched, ...] | None = ()
    """The tries of curl.exe; None where the host has none."""
    boot: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()


async def carry_out(
    directory: Directory,
    plan: Plan,
    actual: HostState,
    questions: Questions,
    *,
    patience: Patience,
    fetches: Sequence[Secret] = (),
    permit: Callable[[], object] = lambda: None,
) -> Change:
    """One exec channel: takes the host, imports, restarts, gathers again. Raises HostError where the host could not be taken.

    When it is called off before the script runs, nothing is changed; afterwards the script's end is waited for, at most
    30 s. The restarts go on in any case. `permit` is asked right before the script is run; what it raises is raised
    here. `fetches` are files for `curl.exe -K`, tried after the restarts.
    """
    owner = directory.owner
    name = directory.new_name()
    pass_id = name.rpartition("-")[2]
    gathering = await install(directory, questions)
    files = [script.change(plan, actual, owner, pass_id, gathering, patience=patience, fetches=len(fetches))]
    if plan.edits:
        files.append(Script("change.reg", reg.render(plan.edits)))
    files += install_script.files(plan)
    files += _fetch_files(fetches)
    await directory.put(name, files)
    try:
        permit()
    except BaseException:
        await directory.remove(name)
        raise
    ended = await _run(directory, name)
    if not ended.succeeded:
        told = _Result.of(await directory.transport.read(remote(name, "result.txt"), _RESULT_LIMIT) or b"")
        if told.says("unfinished"):
            # the job still reads its script
            raise RestartsFailed(_UNFINISHED)
        await directory.remove(name)
        raise told.refusal(owner)
    found = await collect(directory, ended, "change.cmd")
    result = _Result.of(found.parts.get("result.txt", b""))
    boot = tuple(word for text in result.values("mustboot") for word in text.split())
    trouble = result.trouble(plan, patience)
    restarted = tuple(dict.fromkeys(result.values("restarted")))
    after = msgspec.structs.replace(found.state(questions), dependencies=actual.dependencies)
    return Change(after, restarted, trouble, result.fetched(), boot, result.values("remains"))


async def fetch(directory: Directory, fetches: Sequence[Secret]) -> tuple[Fetched, ...] | None:
    """What the host fetches now, without a change: one exec channel. None where it has no curl.exe. Raises HostError."""
    name = directory.new_name()
    await directory.put(name, (script.fetch(name, len(fetches)), *_fetch_files(fetches)))
    ended = await directory.transport.run(local(name, "fetch.cmd"))
    await directory.remove(name)
    return _Result([line.strip() for line in ended.lines]).fetched()


def _fetch_files(fetches: Sequence[Secret]) -> list[Script]:
    return [Script(f"fetch-{number}.txt", fetch.reveal().encode()) for number, fetch in enumerate(fetches)]


async def _run(directory: Directory, name: str) -> Run:
    running = asyncio.ensure_future(directory.transport.run(local(name, "change.cmd")))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        # what became of the script otherwise, the next pass reads on the host
        with suppress(HostError, TimeoutError):
            ended = await asyncio.wait_for(asyncio.shield(running), _BEFORE_LEAVING)
            if ended.succeeded:
                await directory.remove(name)
        raise
    finally:
        running.cancel()


class _Result:
    """The lines of `result.txt`: a word each, and what it is about."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    @classmethod
    def of(cls, text: bytes) -> "_Result":
        return cls([line.strip() for line in text.decode("ascii", "replace").splitlines()])

    def says(self, word: str) -> bool:
        return word in self._lines

    def values(self, word: str) -> tuple[str, ...]:
        return tuple(line.removeprefix(f"{word} ") for line in self._lines if line.startswith(f"{word} "))

    def _parted(self, word: str) -> "tuple[_Result, _Result]":
        at = self._lines.index(word)
        return _Result(self._lines[:at]), _Result(self._lines[at:])

    def fetched(self) -> tuple[Fetched, ...] | None:
        if self.says("nocurl"):
            return None
        return tuple(Fetched(*map(int, text.split())) for text in self.values("fetched") if _FETCHED.fullmatch(text))

    def refusal(self, owner: Owner) -> HostError:
        """Why nothing was begun, or nothing is known of what was."""
        if self.says("held"):
            boot = "".join(self.values("boot"))
            return Held("".join(self.values("holder")) or "a pass that does not say whose it is", _boot(boot))
        if seen := self.values("superseded"):
            return Superseded(owner.generation or 0, int(seen[0]))
        if self.says("begun"):
            return ScriptFailed("the change was carried out, and the host could not be read afterwards (is the disk full?)")
        if self.says("taken"):
            return ScriptFailed("another pass took the host over; nothing was changed by this one")
        return ScriptFailed("the script that changes the host did not begin (is the disk full?)")

    def trouble(self, plan: Plan, patience: Patience) -> HostError | None:
        """What went wrong after the host was taken."""
        if self.says("reversing"):
            first, then = self._parted("reversing")
            return install_result.put_back(first.values, then.values, plan)
        if failed := install_result.trouble(self.values, plan):
            return failed
        if self.says("notimported"):
            return ImportFailed("reg import did not take the change; the user must be an administrator with access to the keys")
        if self.says("nojob"):
            return RestartsFailed("the restarts could not be started: Windows did not run the service TransomRestart")
        stuck = [_service(text) for text in self.values("stuck")]
        down = [name for name in map(_service, self.values("unstarted")) if name not in stuck]
        problems = [f"{name} did not stop within {patience.stopping(name)} s" for name in stuck]
        problems += [f"{name} does not run, {patience.starting(name)} s after its start" for name in down]
        if problems:
            return RestartsFailed(
                "; ".join(problems) + ". Every other service that should run was started; the next pass tries again"
            )
        if (plan.stop or plan.start or plan.install) and not self.says("ended"):
            return RestartsFailed(
                "the restarts have not ended; they go on by themselves, and the next pass looks at them again"
            )
        return None


def _service(text: str) -> str:
    """`3 name`: a state, then the service."""
    return text.split(" ", 1)[1]


def _boot(text: str) -> int | None:
    """As reg query prints it; None for `none`, where the host counts no boots."""
    try:
        return int(text, 16)
    except ValueError:
        return None
