"""Read a host: put the script once, run it, fetch what it wrote."""

import asyncio
import secrets

from transom.hosts import answers, script
from transom.hosts.directory import Directory, local, remote
from transom.hosts.errors import DirectoryNotOurs, ScriptFailed
from transom.hosts.script import BASE, Script
from transom.hosts.transport import Run
from transom.windows.gathering import Questions
from transom.windows.state import HostState

_REFUSED = "transom-refused:"
_LEFT = "transom-left: "
_GATHERED = "transom-gather: "


async def gather(directory: Directory, questions: Questions) -> HostState:
    """The answers to `questions`: one exec channel. Raises HostError."""
    transport, owner = directory.transport, directory.owner
    asked = script.gather(questions, owner)
    if not await directory.has(asked):
        await directory.prepare()
        asked = script.gather(questions, owner, directory.found)
        await directory.install(asked, secrets.token_hex(4))
    made = directory.found == "made"
    ended = await transport.run(local(asked.name))
    if made:
        await asyncio.gather(directory.check_made(), transport.remove(remote(asked.name)))
    return await collect(directory, ended, questions)


async def install(directory: Directory, questions: Questions) -> Script:
    """The script for `questions`, seen to be on the host, for another script to call. Raises HostError."""
    asked = script.gather(questions, directory.owner)
    if not await directory.has(asked):
        await directory.install(asked, secrets.token_hex(4))
    return asked


async def collect(directory: Directory, ended: Run, questions: Questions) -> HostState:
    """What a script that gathered has left: fetched, and removed from the host. Raises HostError."""
    if any(line.startswith(_REFUSED) for line in ended.lines):
        raise DirectoryNotOurs(
            f"{BASE} belongs to somebody who is neither SYSTEM nor Administrators; look who made it, and remove it"
        )
    gathered = next((line.removeprefix(_GATHERED) for line in ended.lines if line.startswith(_GATHERED)), None)
    if gathered is None:
        raise ScriptFailed("the script that reads the host did not come to its end (is the disk full?)")
    data = await directory.transport.read(remote(gathered, "gathered"))
    if data is None:
        raise ScriptFailed("the host's answers are not where its script said")
    left = [line.removeprefix(_LEFT) for line in ended.lines if line.startswith(_LEFT)]
    others = [name for name in left if name != gathered]
    if others:
        await directory.tidy(others, gathered)
    await directory.remove(gathered, ("gathered",))
    return answers.read(data, questions)
