"""A worker's whole life on Wine under a virus scanner that reads each file for 2 s after it was written, by SFTP or a program.

`python -m benchmarks.scanner [--seconds S]`: what each pass came to, its channels and its time. Ends with 1 where one failed.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

from lab.machine import Machine
from tests.stories.nodes.test_configure import Operator
from tests.support.workers.hosts import SERVICES, OnWine

from transom.hosts.errors import HostError, PutBack
from transom.hosts.passes.configure import Configured
from transom.hosts.passes.removal import Removed


async def told(what: str, work: Awaitable[Configured | Removed], wanted: type[HostError] | None = None) -> bool:
    """Whether a pass came to what it should: no error, or the one that is wanted."""
    begun = time.monotonic()
    ended = await work
    well = ended.error is None if wanted is None else isinstance(ended.error, wanted)
    seconds, outcome = time.monotonic() - begun, "well  " if well else "FAILED"
    print(f"{outcome} {what}: {seconds:.0f} s, {ended.channels} channels; {ended.error}", flush=True)
    return well


async def life(machine: Machine, path: Path, seconds: float) -> bool:
    """A first configuration, the Node, a version that does not run, one that does, and the removal."""
    host = OnWine(machine)
    operator = Operator(host, path)
    machine.ssh.scan(seconds)
    machine.scan(seconds)
    well = [await told("first configuration", operator.configure())]
    operator.joined()
    well.append(await told("the Node is there", operator.configure()))
    operator.payload = host.payload(path / "payload", "2.0.0", program=b"no program")
    well.append(await told("a version that does not run", operator.configure(), PutBack))
    operator.payload = host.payload(path / "payload", "1.0.1", kubelet=b"new")
    well += [await told("the next version", operator.configure()), host.running() == set(SERVICES)]
    well.append(await told("nothing to do", operator.configure()))
    well.append(await told("removal", operator.remove()))
    return all(well)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2)
    with tempfile.TemporaryDirectory() as directory, Machine("win-b", bare=True) as machine:
        machine.boot()
        sys.exit(not asyncio.run(life(machine, Path(directory), parser.parse_args().seconds)))


if __name__ == "__main__":
    main()
