"""`transom simulate`: the hosts of a directory that `transom init --simulated` made, as long as this process runs."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.commands.init import HOST_KEY
from transom.cli.messages import print_to_stderr
from transom.cli.output import ExitCode, fail, print_lines
from transom.cli.stopping import list_server_signals
from transom.common.regular_files import read_regular_file, read_regular_text

if TYPE_CHECKING:
    from transom.sources.objects import Objects

_PROCESS, _LOG = ".simulated-process", ".simulated-log"
_SERVICES = {"containerd": (), "kubelet": ("containerd",), "cloud-node-manager": ()}


def simulate(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory that `transom init --simulated` created.")],
    detach: Annotated[bool, typer.Option("--detach", help="Return when the hosts are up, and keep them running.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop the hosts that --detach started.")] = False,
) -> None:
    """Run the simulated hosts of a directory.

    The hosts run behind a real SSH server on 127.0.0.1 until the command ends. They then lose their state.
    """
    if not (directory / HOST_KEY).is_file():
        fail(f"{directory} contains no simulated host: `transom init DIR --simulated` creates one")
    if stop:
        _stop_detached(directory)
        return
    process = _find_detached(directory)
    if process is not None:
        fail(
            f"{directory} is simulated already (process {process}): stop it with `transom simulate {directory} --stop`",
            ExitCode.NOT_DONE,
        )
    if detach:
        _start_detached(directory)
    else:
        _run_simulator(directory)


def _run_simulator(directory: Path) -> None:
    import asyncio

    from transom.sources.directory import load_objects

    objects = load_objects([str(directory)])
    if any(finding.severity == "error" for finding in objects.findings):
        fail(f"{directory}: `transom validate -f {directory}` says what is wrong with it")
    try:
        asyncio.run(_serve_hosts(objects, read_regular_file(directory / HOST_KEY)))
    except OSError as error:
        fail(f"{directory}: {error.strerror}: does another process simulate its hosts already?", ExitCode.NOT_DONE)


def _start_detached(directory: Path) -> None:
    """Start a process that outlives the terminal; return after it printed each host's address."""
    import subprocess

    from transom.sources.directory import load_objects

    command = [sys.executable, "-m", "transom", "simulate", str(directory)]
    nothing, log = subprocess.DEVNULL, directory / _LOG
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe, log.open("wb") as errors:
        # a reader of our own output must not wait for this process
        running = subprocess.Popen(  # noqa: S603  # this program
            command, stdin=nothing, stdout=pipe, stderr=errors, start_new_session=True
        )
    try:
        with os.fdopen(reading, encoding="utf-8") as output:
            for _ in load_objects([str(directory)]).windows_instances:
                line = output.readline()
                if not line:
                    fail(read_regular_text(log, errors="replace").strip().removeprefix("transom: "), ExitCode(running.wait()))
                print_lines(line.strip().replace("until Ctrl-C", f"until `transom simulate {directory} --stop`"))
        (directory / _PROCESS).write_text(str(running.pid))
    except KeyboardInterrupt:
        # otherwise the process runs unnoticed
        running.terminate()
        raise


def _find_detached(directory: Path) -> int | None:
    """Return the process that simulates the hosts of a directory in the background; None if there is none."""
    try:
        process = int(read_regular_text(directory / _PROCESS))
        # another process may have the number by now
        return process if b"simulate" in Path(f"/proc/{process}/cmdline").read_bytes() else None
    except (OSError, ValueError):
        return None


def _stop_detached(directory: Path) -> None:
    process = _find_detached(directory)
    (directory / _PROCESS).unlink(missing_ok=True)
    if process is None:
        fail(f"{directory}: no simulated hosts of this directory are running", ExitCode.NOT_DONE)
    os.kill(process, signal.SIGTERM)
    print_to_stderr(f"transom: stopped the simulated hosts of {directory}; their state is deleted")


async def _serve_hosts(objects: "Objects", host_key: bytes) -> None:
    import asyncio

    import asyncssh

    from transom.windows.nodes.windows_instance import read_private_key
    from winsim import Simulator

    stop = asyncio.Event()
    for number in list_server_signals():
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Simulator(host_key=asyncssh.import_private_key(host_key)) as simulator:
        for instance in objects.windows_instances:
            key, spec = read_private_key(instance, objects), instance.spec
            if key is None or spec.address != "127.0.0.1":
                fail(f"WindowsInstance/{instance.name}: spec.address has to be 127.0.0.1, and its key has to be there")
            host = await simulator.add_host(instance.name.upper(), services=_SERVICES, username=spec.username, port=spec.port)
            host.put_keys(asyncssh.import_private_key(key.reveal()).export_public_key())
            print_lines(f"{instance.name}: a simulated Windows host at {spec.address}:{spec.port}, until Ctrl-C")
        sys.stdout.flush()
        await stop.wait()
    print_to_stderr("transom: the simulated hosts are gone")
