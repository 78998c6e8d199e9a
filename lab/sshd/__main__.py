"""``python -m lab.sshd SETTINGS.json``: serve until SIGTERM, then end all connections and what they had started."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import asyncssh

from lab.sshd.connection import Connection
from lab.sshd.journal import Journal
from lab.sshd.settings import Settings, load

VERSION = "OpenSSH_for_Windows_9.5"


async def serve(settings: Settings) -> None:
    """Listen and serve."""
    journal = Journal(settings.journal)
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    server = await asyncssh.listen(
        settings.address,
        settings.port,
        server_factory=lambda: Connection(settings, journal),
        server_host_keys=[str(settings.host_key)],
        server_version=VERSION,
        encoding=None,
        reuse_address=True,
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_host=None,
    )
    await asked.wait()
    server.close()
    await server.wait_closed()


asyncio.run(serve(load(Path(sys.argv[1]))))
