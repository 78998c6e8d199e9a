"""Whether a machine is as Transom takes Windows to be: a check at a time, and nothing of it stays there."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from transom.hosts.errors import HostError
from transom.hosts.passes.passes import PassSettings, opened
from transom.hosts.scripts.template import Script, render
from transom.hosts.ssh.connection import Access
from transom.hosts.ssh.directory import Directory, local, remote
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.steps.checks import CHECKS, LONG_LINE, Check, Verdict
from transom.hosts.steps.gather import gather
from transom.windows.host.queries import Queries

_SEEN = 200
"""Letters of what a check saw."""


class Checked(msgspec.Struct, frozen=True):
    """What became of a check: `seen` is what it goes by, `seconds` how long it took."""

    id: str
    claim: str
    source: str
    verdict: Verdict
    seen: str
    seconds: float


async def verify(
    access: Access, host_keys: HostKeys, settings: PassSettings, told: Callable[[Checked], object] = lambda _: None
) -> tuple[Checked, ...]:
    """Every check, in order; each is `told` as soon as it is known. Raises HostError.

    A host in use is not changed. What a check needs lies in a directory of its own, which goes also when this is called off.
    """
    before: Sequence[str] | None = None
    try:
        async with opened(access, host_keys, settings, only_reads=True, doing="the verification") as directory:
            before = await directory.transport.names(remote())
            found = await _checked(directory, told)
            await directory.restore(before)
            return found
    except (asyncio.CancelledError, HostError):
        # what was going on still runs, and holds its files, until its connection has ended; of two troubles the first is told
        with suppress(HostError):
            if before is not None:
                async with opened(access, host_keys, settings, only_reads=True, doing="clearing up") as directory:
                    await directory.restore(before)
        raise


async def _checked(directory: Directory, told: Callable[[Checked], object]) -> tuple[Checked, ...]:
    await gather(directory, Queries())
    name = directory.new_name()
    scripts = [Script(f"{check.id}.cmd", _script(name, check)) for check in CHECKS]
    await directory.put(name, [*scripts, Script("long.txt", LONG_LINE)])
    found = []
    for check in CHECKS:
        found.append(await _asked(directory, name, check))
        told(found[-1])
    return tuple(found)


def _script(name: str, check: Check) -> bytes:
    return render("check.cmd", {"PASS": name, "LINES": check.lines})


async def _asked(directory: Directory, name: str, check: Check) -> Checked:
    begun = time.monotonic()
    ended = await directory.transport.run(local(name, f"{check.id}.cmd"))
    verdict, seen = check.judge(ended.lines)
    return Checked(check.id, check.claim, check.source, verdict, seen[:_SEEN], round(time.monotonic() - begun, 3))
