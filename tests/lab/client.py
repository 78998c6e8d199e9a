"""An SSH client that does nothing by itself."""

from contextlib import AbstractAsyncContextManager

import asyncssh
from lab.machine import Machine


def connect(machine: Machine, **options: object) -> AbstractAsyncContextManager[asyncssh.SSHClientConnection]:
    """Log in to a machine with its key; options go to asyncssh."""
    settings: dict[str, object] = {
        "username": machine.ssh.user,
        "client_keys": [str(machine.ssh.key)],
        "known_hosts": None,
        "agent_path": None,
        "config": None,
    }
    return asyncssh.connect(machine.place.address, machine.place.port, **(settings | options))  # type: ignore[arg-type]
