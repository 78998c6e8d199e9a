"""A person at the console of a simulated host."""

from typing import NamedTuple

from winsim.host import Host
from winsim.interpreter import Shell
from winsim.processes import Job
from winsim.streams import Buffer, Streams


class Printed(NamedTuple):
    """What a command line printed, with line feeds alone, and its exit code."""

    output: str
    error: str
    code: int


async def booted() -> Host:
    """A host without services, and without an SSH server."""
    host = Host("WIN-1")
    await host.boot()
    return host


async def console(host: Host, line: str, cwd: str = r"C:\Windows") -> Printed:
    """Runs a command line as an administrator would."""
    out, error = Buffer(), Buffer()
    code = await Shell(host, host.build_variables(), cwd, Streams(out, error), Job()).run(line)
    texts = (stream.data.decode("cp437").replace("\r\n", "\n") for stream in (out, error))
    return Printed(*texts, code)
