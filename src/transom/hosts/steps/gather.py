"""Read a host: put the script once, run it, fetch its output; and list the existing files."""

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from transom.hosts.errors import DirectoryNotOurs, NotAdministrator, ScriptFailed, Unreadable
from transom.hosts.scripts import host_scripts
from transom.hosts.scripts.results import OutputMarker
from transom.hosts.scripts.template import BASE, Script, render_script
from transom.hosts.ssh.directory import HostDirectory, format_sftp_path, format_windows_path
from transom.hosts.ssh.transport import ScriptResult, Transport
from transom.hosts.steps.facts_parser import LIMIT, GatheredFacts
from transom.windows import ledger
from transom.windows.host.host_state import CHANGED, ObservedState
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
_GATHERED = re.compile(rf"{OutputMarker.GATHERED} ([gp]-[0-9a-f]{{8}}-[0-9a-f]{{1,32}}) ([0-9]{{1,10}})")
_TIDIED = 100
"""Left-overs that one pass looks at; who has more is looked at again."""
_LIMIT = 4096
_SAID = 400
"""The maximum number of characters of a script's error message in a condition."""


class CollectedAnswers(msgspec.Struct, frozen=True):
    """Answers, and how many bytes they were."""

    answers: GatheredFacts
    size: int

    async def parse_state(self, questions: Queries) -> ObservedState:
        """Run `FactsParser.state` outside the event loop."""
        return await parse_with_budget(lambda: self.answers.parse_state(questions), self.size)


async def gather(directory: HostDirectory, questions: Queries) -> ObservedState:
    """Gather the answers to `questions` over one exec channel. Raises HostError.

    A plain script exists only in a directory that is closed to others. If it is missing, the first script to run closes the
    directory and reports this, before any values are placed there.
    """
    transport, owner = directory.transport, directory.owner
    script = host_scripts.build_gather_script(questions, owner)
    is_installed = await directory.has_script(script)
    if is_installed or directory.base == "closed" or await _has_equivalent_script(directory, questions):
        directory.base = "closed"
        if not is_installed:
            await directory.install_script(script, secrets.token_hex(4))
        ended = await transport.run(format_windows_path(script.name))
    else:
        await directory.ensure_exists()
        closing = host_scripts.build_gather_script(questions, owner, directory.base)
        if not await directory.has_script(closing):
            await directory.install_script(closing, secrets.token_hex(4))
        ended = await transport.run(format_windows_path(closing.name))
        _require_closed_directory(directory, ended)
        if directory.base == "made":
            await directory.check_new_directory()
        await transport.remove(format_sftp_path(closing.name))
        directory.base = "closed"
        # the next pass finds it there, and writes nothing
        await directory.install_script(script, secrets.token_hex(4))
    collected = await collect_answers(directory, ended)
    return msgspec.structs.replace(
        await collected.parse_state(questions), reached=transport.reached, ssh_server=transport.server
    )


def _require_closed_directory(directory: HostDirectory, script_result: ScriptResult) -> None:
    """Raise the HostError that says why the script of the first pass did not close the directory to others."""
    if OutputMarker.NO_ROOT in script_result.lines:
        raise DirectoryNotOurs(
            f"Windows does not lie in C:\\Windows on this host: {BASE} may be anybody's, and nothing was done"
        )
    if OutputMarker.NO_ACCESS in script_result.lines and directory.base == "made":
        raise NotAdministrator(
            f"the user is not an administrator of the host: it may not give {BASE} to Administrators; use an administrator"
        )
    if OutputMarker.NO_ACCESS in script_result.lines:
        raise DirectoryNotOurs(
            f"{BASE} is not owned by SYSTEM or Administrators, or others have access to it;  "
            "find out who created it, and remove it"
        )
    if OutputMarker.CLOSED not in script_result.lines:
        raise _build_unended_error(script_result)


async def _has_equivalent_script(directory: HostDirectory, questions: Queries) -> bool:
    """Return True if the host has the equivalent script of a pass that did, or did not, expect a change."""
    other = msgspec.structs.replace(questions, dependants=not questions.dependants)
    return not questions.walk and await directory.has_script(host_scripts.build_gather_script(other, directory.owner))


def _build_unended_error(ended: ScriptResult) -> ScriptFailed:
    return ScriptFailed(_UNENDED if ended.succeeded or OutputMarker.BEGUN in ended.lines else _SHELL)


async def install_gather_script(directory: HostDirectory, questions: Queries) -> Script:
    """Install the script for `questions` on the host if it is missing, for another script to call. Raises HostError."""
    script = host_scripts.build_gather_script(questions, directory.owner)
    if not await directory.has_script(script):
        await directory.install_script(script, secrets.token_hex(4))
    return script


async def collect_answers(directory: HostDirectory, script_result: ScriptResult, *used_scripts: str) -> CollectedAnswers:
    """Collect a gather script's answers and remove them and the `spent` scripts from the host. Raises HostError."""
    gathered = next((item for item in map(_GATHERED.fullmatch, script_result.lines) if item), None)
    if gathered is None:
        raise _build_unended_error(script_result)
    name, size = gathered[1], int(gathered[2])
    if size > LIMIT:
        raise Unreadable(f"the host's answers are larger than {LIMIT:,} bytes; there is something wrong with its registry")
    data = await directory.transport.read(format_sftp_path(name, "gathered"), size)
    if data is None:
        raise ScriptFailed("the host's answers are not where its script said")
    left = [
        line.removeprefix(f"{OutputMarker.LEFT} ") for line in script_result.lines if line.startswith(f"{OutputMarker.LEFT} ")
    ]
    others = [other for other in left if other != name]
    if others:
        await directory.remove_leftovers(others[:_TIDIED], name)
    await directory.remove_subdirectory(name, ("gathered", *used_scripts))
    return CollectedAnswers(await parse_with_budget(lambda: GatheredFacts.from_bytes(data), len(data)), len(data))


async def parse_with_budget(read: Callable[[], _Read], size: int) -> _Read:
    """Return what `read` parses from `size` bytes. Raises Unreadable if it took too long, and what `read` raises."""
    if size <= _AT_ONCE:
        return read()

    def run_timed() -> tuple[_Read, float]:
        started_at = time.thread_time()
        return read(), time.thread_time() - started_at

    result, seconds = await asyncio.get_running_loop().run_in_executor(_thread, run_timed)
    if seconds > _SECONDS:
        raise Unreadable(f"the host's answer took {seconds:.1f} s of CPU to read; there is something wrong with its registry")
    return result


async def stat_files(
    transport: Transport, state: ObservedState, files: Sequence[str], directories: Sequence[str]
) -> ObservedState:
    """Return the state with those of the files and directories that exist. Raises HostError."""
    recorded = FoldedDict(ledger.read(state.registry).installed.files)
    statuses = await asyncio.gather(*(transport.read_status(path.replace("\\", "/")) for path in (*files, *directories)))
    hashes: dict[str, str] = {}
    for path, entry in zip(files, statuses, strict=False):
        own = recorded.get(path)
        if entry is not None:
            hashes[path] = (own.match_digest(entry.size, entry.modified) if own is not None else None) or CHANGED
    present = tuple(path for path, item in zip(directories, statuses[len(files) :], strict=True) if item and item.directory)
    return msgspec.structs.replace(state, files=hashes, directories=present)


async def hash_foreign_files(transport: Transport, state: ObservedState, known: Mapping[str, str]) -> Mapping[str, str]:
    """Return the SHA-256 of existing files that are neither in the ledger nor `known`. Raises HostError.

    Transom takes these files over. Some hundred megabytes of programs are read, one file after the other, once per host.
    """
    recorded = ledger.read(state.registry).installed
    hashes = {}
    for path in state.files:
        if path not in known and recorded.find_file(path) is None:
            status = await transport.read_status(path.replace("\\", "/"))
            sha256 = await transport.digest(path.replace("\\", "/"), status.size) if status and not status.directory else None
            if sha256 is not None:
                hashes[path] = sha256
    return hashes


class ScriptOutputs(msgspec.Struct, frozen=True):
    """By variable, what each script printed, and the words of those that failed or printed nothing."""

    texts: dict[str, str] = {}
    complaints: dict[str, str] = {}


async def run_output_scripts(directory: HostDirectory, scripts: Mapping[str, tuple[str, bytes]]) -> ScriptOutputs:
    """Run scripts one by one and return their outputs; `scripts` has file name and content by variable.

    Raises HostError.
    """
    transport, name = directory.transport, directory.generate_name()
    calls = [
        f"call :{'powershell' if file.endswith('.ps1') else 'batch'} {variable}" for variable, (file, _) in scripts.items()
    ]
    frame = Script(
        "outputs.cmd", render_script("outputs.cmd", {"DIRECTORY": format_windows_path(name), "CALLS": "\n".join(calls)})
    )
    await directory.put_files(
        name, [frame, *(Script(f"{v}.{file.rpartition('.')[2]}", text) for v, (file, text) in scripts.items())]
    )
    await transport.run(format_windows_path(name, "outputs.cmd"))
    texts, complaints = {}, {}
    for variable in scripts:
        if text := _parse_first_word(await transport.read(format_sftp_path(name, f"{variable}.txt"), _LIMIT)):
            texts[variable] = text
        elif complaint := _format_complaint(await transport.read(format_sftp_path(name, f"{variable}.err"), _LIMIT)):
            complaints[variable] = complaint
    await directory.remove_subdirectory(name)
    return ScriptOutputs(texts, complaints)


def _parse_first_word(data: bytes | None) -> str:
    lines = (data or b"").decode("ascii", "replace").split()
    return lines[0] if lines else ""


def _format_complaint(data: bytes | None) -> str:
    """Format an error as one line of printable ASCII: PowerShell wraps its errors to the width of a console."""
    text = " ".join((data or b"").decode("ascii", "replace").split())
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text)[:_SAID]
