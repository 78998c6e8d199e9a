"""Read a host: put the script once, run it, fetch what it wrote; and what of its files is there."""

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from transom.hosts import scripts
from transom.hosts.errors import DirectoryNotOurs, NotAdministrator, ScriptFailed, Unreadable
from transom.hosts.scripts.results import Told
from transom.hosts.scripts.template import BASE, Script, render
from transom.hosts.ssh.directory import Directory, local, remote
from transom.hosts.ssh.transport import Run, Transport
from transom.hosts.steps.facts_parser import LIMIT, FactsParser
from transom.windows import ledger
from transom.windows.host import CHANGED, ObservedState
from transom.windows.host.queries import Queries
from transom.windows.registry.names import FoldedDict

_Read = TypeVar("_Read")
_AT_ONCE: Final = 64 * 1024
"""Bytes that are read in less time than another thread is worth: some 10 ms at worst."""
_SECONDS: Final = 1.0
"""Of CPU for one answer."""
# one thread: answers that take long take turns, and the loop has a rival at most
_thread: Final = ThreadPoolExecutor(1, "answers")
_UNENDED = "the script that reads the host did not come to its end (is the disk full?)"
_SHELL = (
    "the script that reads the host did not run. The default shell of the host's SSH server has to be cmd.exe or PowerShell, "
    r"not bash: look at DefaultShell below HKLM\SOFTWARE\OpenSSH, and whether a policy keeps cmd.exe from running scripts"
)
_GATHERED = re.compile(rf"{Told.GATHERED} ([gp]-[0-9a-f]{{8}}-[0-9a-f]{{1,32}}) ([0-9]{{1,10}})")
_TIDIED = 100
"""Left-overs that one pass looks at; who has more is looked at again."""
_LIMIT = 4096
_SAID = 400
"""Characters of what a script said of its failure that are kept: they stand in a condition."""


class Collected(msgspec.Struct, frozen=True):
    """Answers, and how many bytes they were."""

    answers: FactsParser
    size: int

    async def state(self, questions: Queries) -> ObservedState:
        """As `FactsParser.state` says, beside the event loop."""
        return await understood(lambda: self.answers.state(questions), self.size)


async def gather(directory: Directory, questions: Queries) -> ObservedState:
    """The answers to `questions`: one exec channel. Raises HostError.

    A plain script lies only in a directory that was closed to others. Where it is missing, the first script to run closes the
    directory and says so, before anything with a value in it is placed there.
    """
    transport, owner = directory.transport, directory.owner
    asked = scripts.gather(questions, owner)
    if await directory.has(asked):
        directory.base = "closed"
    elif directory.base == "closed" or await _has_other(directory, questions):
        directory.base = "closed"
        await directory.install(asked, secrets.token_hex(4))
    else:
        return await _state(directory, await _first(directory, questions), questions)
    return await _state(directory, await collect(directory, await transport.run(local(asked.name))), questions)


async def _has_other(directory: Directory, questions: Queries) -> bool:
    """Whether the script is there of a pass that expected a change, or did not: it shows the same as the one asked for."""
    other = msgspec.structs.replace(questions, dependants=not questions.dependants)
    return not questions.walk and await directory.has(scripts.gather(other, directory.owner))


async def _state(directory: Directory, collected: Collected, questions: Queries) -> ObservedState:
    transport = directory.transport
    return msgspec.structs.replace(await collected.state(questions), reached=transport.reached, ssh_server=transport.server)


async def _first(directory: Directory, questions: Queries) -> Collected:
    transport, owner = directory.transport, directory.owner
    await directory.prepare()
    closing = scripts.gather(questions, owner, directory.base)
    if not await directory.has(closing):
        await directory.install(closing, secrets.token_hex(4))
    ended = await transport.run(local(closing.name))
    if Told.NO_ROOT in ended.lines:
        raise DirectoryNotOurs(
            f"Windows does not lie in C:\\Windows on this host: {BASE} may be anybody's, and nothing was done"
        )
    if Told.NO_ACCESS in ended.lines and directory.base == "made":
        raise NotAdministrator(
            f"the user is no administrator of the host: it may not give {BASE} to Administrators; use one that is"
        )
    if Told.NO_ACCESS in ended.lines:
        raise DirectoryNotOurs(
            f"{BASE} belongs to somebody who is neither SYSTEM nor Administrators, or others have access to it; "
            "look who made it, and remove it"
        )
    if Told.CLOSED not in ended.lines:
        raise _unended(ended)
    if directory.base == "made":
        await directory.check_made()
    await transport.remove(remote(closing.name))
    directory.base = "closed"
    # the next pass finds it there, and writes nothing
    await directory.install(scripts.gather(questions, owner), secrets.token_hex(4))
    return await collect(directory, ended)


def _unended(ended: Run) -> ScriptFailed:
    return ScriptFailed(_UNENDED if ended.succeeded or Told.BEGUN in ended.lines else _SHELL)


async def install(directory: Directory, questions: Queries) -> Script:
    """The script for `questions`, seen to be on the host, for another script to call. Raises HostError."""
    asked = scripts.gather(questions, directory.owner)
    if not await directory.has(asked):
        await directory.install(asked, secrets.token_hex(4))
    return asked


async def collect(directory: Directory, ended: Run, *spent: str) -> Collected:
    """What a script that gathered has left: fetched, and removed from the host with the scripts `spent`. Raises HostError."""
    told = next((found for found in map(_GATHERED.fullmatch, ended.lines) if found), None)
    if told is None:
        raise _unended(ended)
    name, size = told[1], int(told[2])
    if size > LIMIT:
        raise Unreadable(f"the host's answers are larger than {LIMIT:,} bytes; there is something wrong with its registry")
    data = await directory.transport.read(remote(name, "gathered"), size)
    if data is None:
        raise ScriptFailed("the host's answers are not where its script said")
    left = [line.removeprefix(f"{Told.LEFT} ") for line in ended.lines if line.startswith(f"{Told.LEFT} ")]
    others = [other for other in left if other != name]
    if others:
        await directory.tidy(others[:_TIDIED], name)
    await directory.remove(name, ("gathered", *spent))
    return Collected(await understood(lambda: FactsParser.of(data), len(data)), len(data))


async def understood(read: Callable[[], _Read], size: int) -> _Read:
    """What `read` makes of `size` bytes. Raises Unreadable where that took too long, and what `read` raises."""
    if size <= _AT_ONCE:
        return read()

    def timed() -> tuple[_Read, float]:
        begun = time.thread_time()
        return read(), time.thread_time() - begun

    found, seconds = await asyncio.get_running_loop().run_in_executor(_thread, timed)
    if seconds > _SECONDS:
        raise Unreadable(f"the host's answer took {seconds:.1f} s of CPU to read; there is something wrong with its registry")
    return found


async def probed(transport: Transport, state: ObservedState, files: Sequence[str], directories: Sequence[str]) -> ObservedState:
    """The state with those of the files and directories that are there. Raises HostError."""
    recorded = FoldedDict(ledger.read(state.registry).installed.files)
    found = await asyncio.gather(*(transport.look(path.replace("\\", "/")) for path in (*files, *directories)))
    hashes: dict[str, str] = {}
    for path, there in zip(files, found, strict=False):
        own = recorded.get(path)
        if there is not None:
            hashes[path] = (own.known(there.size, there.modified) if own is not None else None) or CHANGED
    present = tuple(path for path, there in zip(directories, found[len(files) :], strict=True) if there and there.directory)
    return msgspec.structs.replace(state, files=hashes, directories=present)


async def found_files(transport: Transport, state: ObservedState, known: Mapping[str, str]) -> Mapping[str, str]:
    """The SHA-256 of files that are there and are neither in the ledger nor `known`: they are taken over. Raises HostError.

    Some hundred megabytes of programs are read, one file after the other, once for a host.
    """
    recorded = ledger.read(state.registry).installed
    found = {}
    for path in state.files:
        if path not in known and recorded.file(path) is None:
            there = await transport.look(path.replace("\\", "/"))
            sha256 = await transport.digest(path.replace("\\", "/"), there.size) if there and not there.directory else None
            if sha256 is not None:
                found[path] = sha256
    return found


class Outputs(msgspec.Struct, frozen=True):
    """By variable, what each script printed, and the words of those that failed or printed nothing."""

    texts: dict[str, str] = {}
    complaints: dict[str, str] = {}


async def outputs(directory: Directory, asked: Mapping[str, tuple[str, bytes]]) -> Outputs:
    """What scripts print, run one by one: `asked` has file name and content by variable. Raises HostError."""
    transport, name = directory.transport, directory.new_name()
    calls = [f"call :{'powershell' if file.endswith('.ps1') else 'batch'} {variable}" for variable, (file, _) in asked.items()]
    frame = Script("outputs.cmd", render("outputs.cmd", {"DIRECTORY": local(name), "CALLS": "\n".join(calls)}))
    await directory.put(name, [frame, *(Script(f"{v}.{file.rpartition('.')[2]}", text) for v, (file, text) in asked.items())])
    await transport.run(local(name, "outputs.cmd"))
    texts, complaints = {}, {}
    for variable in asked:
        if text := _first_word(await transport.read(remote(name, f"{variable}.txt"), _LIMIT)):
            texts[variable] = text
        elif said := _words(await transport.read(remote(name, f"{variable}.err"), _LIMIT)):
            complaints[variable] = said
    await directory.remove(name)
    return Outputs(texts, complaints)


def _first_word(data: bytes | None) -> str:
    lines = (data or b"").decode("ascii", "replace").split()
    return lines[0] if lines else ""


def _words(data: bytes | None) -> str:
    """One line of printable ASCII: PowerShell breaks its errors to the width of a console that nobody sees."""
    text = " ".join((data or b"").decode("ascii", "replace").split())
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text)[:_SAID]
