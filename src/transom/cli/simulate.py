"""`transom simulate`: the hosts of a directory that `transom init --simulated` made, as long as this process runs."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.init import HOST_KEY
from transom.cli.output import ExitCode, fail, print_lines, tell

if TYPE_CHECKING:
    from transom.sources.objects import Objects

_PROCESS, _LOG = ".simulated-process", ".simulated-log"
_SERVICES = {"containerd": (), "kubelet": ("containerd",), "cloud-node-manager": ()}


def simulate(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory that `transom init --simulated` made.")],
    detach: Annotated[
        bool, typer.Option("--detach", help="Come back once the hosts are there, and leave them running.")
    ] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End what --detach has left running.")] = False,
) -> None:
    """Run the simulated hosts of a directory.

    For as long as this program runs, behind a real SSH server on 127.0.0.1. What they were given is forgotten when it ends.
    """
    if not (directory / HOST_KEY).is_file():
        fail(f"{directory}: there is no simulated host in it: `transom init DIR --simulated` makes one")
    if stop:
        _stop(directory)
    elif detach:
        _detach(directory)
    else:
        _run(directory)


def _run(directory: Path) -> None:
    import asyncio

    from transom.sources.directory import load

    objects = load([str(directory)])
    if any(finding.severity == "error" for finding in objects.findings):
        fail(f"{directory}: `transom validate -f {directory}` says what is wrong with it")
    try:
        asyncio.run(_serve(objects, (directory / HOST_KEY).read_bytes()))
    except OSError as error:
        fail(f"{directory}: {error.strerror}: does another process simulate its hosts already?", ExitCode.NOT_DONE)


def _detach(directory: Path) -> None:
    """A process of its own, which outlives the terminal; it has said where each host is when this comes back."""
    import subprocess

    from transom.sources.directory import load

    command = [sys.executable, "-m", "transom", "simulate", str(directory)]
    pipe, nothing, log = subprocess.PIPE, subprocess.DEVNULL, directory / _LOG
    with log.open("wb") as errors:
        # whoever waits for the end of our own output must not wait for it
        running = subprocess.Popen(  # noqa: S603  # this program
            command, stdin=nothing, stdout=pipe, stderr=errors, start_new_session=True, text=True
        )
    assert running.stdout is not None  # it is a pipe
    for _ in load([str(directory)]).windows_instances:
        line = running.stdout.readline()
        if not line:
            fail(log.read_text("utf-8", "replace").strip().removeprefix("transom: "), ExitCode(running.wait()))
        print_lines(line.strip().replace("until Ctrl-C", f"until `transom simulate {directory} --stop`"))
    (directory / _PROCESS).write_text(str(running.pid))


def _stop(directory: Path) -> None:
    file = directory / _PROCESS
    try:
        process = int(file.read_text())
        # the number may be somebody else's by now
        ours = b"simulate" in Path(f"/proc/{process}/cmdline").read_bytes()
    except (OSError, ValueError):
        ours = False
    file.unlink(missing_ok=True)
    if not ours:
        fail(f"{directory}: nothing of it runs here", ExitCode.NOT_DONE)
    os.kill(process, signal.SIGTERM)
    tell(f"transom: the simulated hosts of {directory} are gone, and what they were given with them")


async def _serve(objects: "Objects", host_key: bytes) -> None:
    import asyncio

    import asyncssh

    from transom.windows.nodes import private_key
    from winsim import Simulator

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Simulator(host_key=asyncssh.import_private_key(host_key)) as simulator:
        for instance in objects.windows_instances:
            key, spec = private_key(instance, objects), instance.spec
            if key is None or spec.address != "127.0.0.1":
                fail(f"WindowsInstance/{instance.name}: spec.address has to be 127.0.0.1, and its key has to be there")
            host = await simulator.add_host(instance.name.upper(), services=_SERVICES, username=spec.username, port=spec.port)
            host.put_keys(asyncssh.import_private_key(key.reveal()).export_public_key())
            print_lines(f"{instance.name}: a simulated Windows host at {spec.address}:{spec.port}, until Ctrl-C")
        sys.stdout.flush()
        await stop.wait()
    tell("transom: the simulated hosts are gone")
