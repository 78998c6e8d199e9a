"""Read a host: put the script once, run it, fetch what it wrote."""

import asyncio
import re
import secrets

from transom.hosts import script
from transom.hosts.answers import Answers
from transom.hosts.directory import Directory, local, remote
from transom.hosts.errors import DirectoryNotOurs, NotAdministrator, ScriptFailed
from transom.hosts.template import BASE, Script
from transom.hosts.transport import Run
from transom.windows.gathering import Questions
from transom.windows.state import HostState

_REFUSED = "transom-refused:"
_LEFT = "transom-left: "
_GATHERED = re.compile(r"transom-gather: ([gp]-[0-9a-f]{8}-[0-9a-f]+) ([0-9]+)")
_LIMIT = 64 * 2**20


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
    if made and any(line.startswith(_REFUSED) for line in ended.lines):
        raise NotAdministrator(
            f"the user is no administrator of the host: it may not give {BASE} to Administrators; use one that is"
        )
    if made:
        await asyncio.gather(directory.check_made(), transport.remove(remote(asked.name)))
        # the next pass finds it there, and writes nothing
        await directory.install(script.gather(questions, owner), secrets.token_hex(4))
    return (await collect(directory, ended)).state(questions)


async def install(directory: Directory, questions: Questions) -> Script:
    """The script for `questions`, seen to be on the host, for another script to call. Raises HostError."""
    asked = script.gather(questions, directory.owner)
    if not await directory.has(asked):
        await directory.install(asked, secrets.token_hex(4))
    return asked


async def collect(directory: Directory, ended: Run, *scripts: str) -> Answers:
    """What a script that gathered has left: fetched, and removed from the host with `scripts`. Raises HostError."""
    if any(line.startswith(_REFUSED) for line in ended.lines):
        raise DirectoryNotOurs(
            f"{BASE} belongs to somebody who is neither SYSTEM nor Administrators; look who made it, and remove it"
        )
    told = next((found for found in map(_GATHERED.fullmatch, ended.lines) if found), None)
    if told is None:
        raise ScriptFailed("the script that reads the host did not come to its end (is the disk full?)")
    name, size = told[1], int(told[2])
    if size > _LIMIT:
        raise ScriptFailed(f"the host's answers are larger than {_LIMIT} bytes; there is something wrong with its registry")
    data = await directory.transport.read(remote(name, "gathered"), size)
    if data is None:
        raise ScriptFailed("the host's answers are not where its script said")
    left = [line.removeprefix(_LEFT) for line in ended.lines if line.startswith(_LEFT)]
    others = [other for other in left if other != name]
    if others:
        await directory.tidy(others, name)
    await directory.remove(name, ("gathered", *scripts))
    return Answers.of(data)
