"""Serve until SIGTERM, then end all connections and what they had started.

Standard input is a pipe from the process that operates the machine. Its end means that this process is gone, and nobody would
switch the machine off: then all of the machine ends.
"""

from __future__ import annotations

import asyncio
import os
import signal

import asyncssh

from lab import wine
from lab.sshd.connection import Connection
from lab.sshd.journal import Journal
from lab.sshd.scanner import Scanner
from lab.sshd.settings import Settings

VERSION = "OpenSSH_for_Windows_9.5"


async def serve(settings: Settings) -> None:
    """Listen and serve."""
    journal = Journal(settings.journal)
    scanner = Scanner(settings.scan)
    stop_requested = asyncio.Event()
    connections: list[Connection] = []
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop_requested.set)

    def stop_when_orphaned() -> None:
        if not os.read(0, 1):
            wine.kill(settings.prefix)
            stop_requested.set()

    loop.add_reader(0, stop_when_orphaned)

    def connect() -> Connection:
        connections.append(Connection(settings, journal, scanner))
        return connections[-1]

    server = await asyncssh.listen(
        settings.address,
        settings.port,
        server_factory=connect,
        server_host_keys=[str(settings.host_key)],
        server_version=VERSION,
        encoding=None,
        reuse_address=True,
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_host=None,
    )
    await stop_requested.wait()
    server.close()
    for connection in connections:
        connection.end()
    await server.wait_closed()
