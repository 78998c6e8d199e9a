"""Carry out a plan on a host: files, one script, and what became of it."""

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from transom.hosts import scripts
from transom.hosts.errors import Held, HostError, ImportFailed, Overtaken, RestartsFailed, ScriptFailed, Superseded
from transom.hosts.owner import Owner
from transom.hosts.scripts import Patience, install_result, install_script
from transom.hosts.scripts.results import Word
from transom.hosts.scripts.template import Script
from transom.hosts.ssh.directory import Directory, local, remote
from transom.hosts.ssh.transport import Run
from transom.hosts.steps.gather import collect, install
from transom.proxy.secret import Secret
from transom.windows.host import ObservedState
from transom.windows.host.queries import LEDGER, Queries
from transom.windows.nodes.fetch import Fetched
from transom.windows.planning import Plan
from transom.windows.registry import reg

_RESULT_LIMIT = 32768
_FETCHED = re.compile(r"[0-9]{1,4} -?[0-9]{1,10} [0-9]{1,10} [0-9]{1,10}")
_FORMS = {
    Word.SUPERSEDED: re.compile(r"[0-9]{1,10}"),
    Word.STUCK: re.compile(r"\S{0,20} .+"),
    Word.UNSTARTED: re.compile(r"\S{0,20} .+"),
    Word.LOST: re.compile(r"\S{0,20}- \S{0,20}- .+"),
}
"""How the lines go on that begin with these words."""
_BOOT = re.compile(r"0x[0-9A-Fa-f]{1,16}")
_BOOT_FOR = frozenset({"containers", "name"})
_NAME_LENGTH = 256
"""Letters of what another pass is shown as."""
_UNFINISHED = "the restarts have not ended; they go on by themselves, and the next pass looks at them again"
_BEFORE_LEAVING = 30
"""Seconds that a script may still take when the pass is called off."""


class HostChange(msgspec.Struct, frozen=True):
    """What became of a plan: the state after, the services seen running again, and what went wrong on the host.

    `boot` says for what the host has to boot before it goes on: `containers`, `name`. `remains` is what could not be removed.
    """

    after: ObservedState
    restarted: tuple[str, ...]
    error: HostError | None
    fetched: tuple[Fetched, ...] | None = ()
    """The tries of curl.exe; None where the host has none."""
    boot: tuple[str, ...] = ()
    remains: tuple[str, ...] = ()


async def carry_out(
    directory: Directory,
    plan: Plan,
    actual: ObservedState,
    questions: Queries,
    *,
    patience: Patience,
    fetches: Sequence[Secret] = (),
    permit: Callable[[], object] = lambda: None,
) -> HostChange:
    """One exec channel: takes the host, imports, restarts, gathers again. Raises HostError where the host could not be taken.

    When it is called off before the script runs, nothing is changed; afterwards the script's end is waited for, at most
    30 s. The restarts go on in any case. `permit` is asked right before the script is run; what it raises is raised
    here. `fetches` are files for `curl.exe -K`, tried after the restarts.
    """
    owner = directory.owner
    name = directory.new_name()
    pass_id = name.rpartition("-")[2]
    gathering = await install(directory, questions)
    files = [scripts.change(plan, actual, owner, pass_id, gathering, patience=patience, fetches=len(fetches))]
    if plan.edits:
        files.append(Script("change.reg", reg.render(plan.edits)))
    if scripts.hands_over(plan):
        files.append(scripts.task(name))
    files += (*scripts.closing_files(plan, actual.registry), *install_script.files(plan))
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
        if told.says(Word.UNFINISHED):
            # the job still reads its script
            raise RestartsFailed(_UNFINISHED)
        await directory.remove(name)
        raise told.refusal(owner)
    found = await collect(directory, ended, "change.cmd")
    result = _Result.of(found.answers.result())
    boot = tuple(word for text in result.values(Word.MUST_BOOT) for word in text.split() if word in _BOOT_FOR)
    trouble = result.trouble(plan, patience)
    restarted = tuple(dict.fromkeys(result.values(Word.RESTARTED)))
    after = msgspec.structs.replace(await found.state(questions), dependencies=actual.dependencies)
    return HostChange(after, restarted, trouble, result.fetched(len(fetches)), boot, result.values(Word.REMAINS))


async def fetch(directory: Directory, fetches: Sequence[Secret]) -> tuple[Fetched, ...] | None:
    """What the host fetches now, without a change: one exec channel. None where it has no curl.exe. Raises HostError."""
    name = directory.new_name()
    await directory.put(name, (scripts.fetch(name, len(fetches)), *_fetch_files(fetches)))
    ended = await directory.transport.run(local(name, "fetch.cmd"))
    await directory.remove(name)
    return _Result(ended.lines).fetched(len(fetches))


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
    """The lines of `result.txt`: a word each, and what it is about. Raises ScriptFailed for a line that no script writes."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        for word, form in _FORMS.items():
            if not all(map(form.fullmatch, self.values(word))):
                raise ScriptFailed(f"what the script says of the change cannot be understood: a line `{word} …`")

    @classmethod
    def of(cls, text: bytes) -> "_Result":
        return cls([line.strip() for line in text.decode("ascii", "replace").splitlines()])

    def says(self, word: Word) -> bool:
        return word in self._lines

    def values(self, word: Word) -> tuple[str, ...]:
        return tuple(line.removeprefix(f"{word} ") for line in self._lines if line.startswith(f"{word} "))

    def _parted(self, word: Word) -> "tuple[_Result, _Result]":
        at = self._lines.index(word)
        return _Result(self._lines[:at]), _Result(self._lines[at:])

    def fetched(self, tries: int) -> tuple[Fetched, ...] | None:
        """What came of the first `tries` fetches."""
        if self.says(Word.NO_CURL):
            return None
        found = [Fetched(*map(int, text.split())) for text in self.values(Word.FETCHED) if _FETCHED.fullmatch(text)]
        return tuple(one for one in found if one.endpoint < tries)

    def refusal(self, owner: Owner) -> HostError:
        """Why nothing was begun, or nothing is known of what was."""
        if self.says(Word.HELD):
            boot = "".join(self.values(Word.BOOT))
            holder = "".join(self.values(Word.HOLDER))[:_NAME_LENGTH]
            return Held(holder or "a pass that does not say whose it is", int(boot, 16) if _BOOT.fullmatch(boot) else None)
        if seen := self.values(Word.SUPERSEDED):
            return Superseded(owner.generation or 0, int(seen[0]))
        if self.says(Word.OVERTAKEN):
            return Overtaken()
        if self.says(Word.BEGUN):
            return ScriptFailed("the change was carried out, and the host could not be read afterwards (is the disk full?)")
        if self.says(Word.TAKEN):
            return ScriptFailed("another pass took the host over; nothing was changed by this one")
        return ScriptFailed("the script that changes the host did not begin (is the disk full?)")

    def trouble(self, plan: Plan, patience: Patience) -> HostError | None:
        """What went wrong after the host was taken."""
        if self.says(Word.REVERSING):
            if plan.install.reversal is None:
                return ScriptFailed("the script says that it took the change back, which it was not told to")
            first, then = self._parted(Word.REVERSING)
            return install_result.put_back(first.values, then.values, plan)
        if self.says(Word.UNCLOSED):
            return ImportFailed(
                rf"{LEDGER} could not be closed to ordinary users: neither Set-Acl nor regini.exe did it. Nothing was changed"
            )
        if failed := install_result.trouble(self.values, plan):
            return failed
        if self.says(Word.NOT_IMPORTED):
            return ImportFailed("reg import did not take the change; the user must be an administrator with access to the keys")
        if self.says(Word.NO_JOB):
            return RestartsFailed(
                "the restarts could not be started: Windows ran neither the task TransomRestart nor a service of that name"
            )
        stuck = [_service(text) for text in self.values(Word.STUCK)]
        down = [name for name in map(_service, self.values(Word.UNSTARTED)) if name not in stuck]
        problems = [f"{name} did not stop within {patience.stopping(name)} s" for name in stuck]
        problems += [f"{name} does not run, {patience.starting(name)} s after its start" for name in down]
        if problems:
            return RestartsFailed(
                "; ".join(problems) + ". Every other service that should run was started; the next pass tries again"
            )
        if scripts.hands_over(plan) and not self.says(Word.ENDED):
            return RestartsFailed(
                "the restarts have not ended; they go on by themselves, and the next pass looks at them again"
            )
        return None


def _service(text: str) -> str:
    """`3 name`: a state, then the service."""
    return text.partition(" ")[2]
