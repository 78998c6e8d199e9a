"""What of a host's files and directories is there. An unchanged file is known by its size and its time."""

import asyncio
from collections.abc import Sequence

import msgspec

from transom.hosts.ssh.transport import Transport
from transom.windows.host.state import CHANGED, HostState
from transom.windows.ledger import ledger


async def probed(transport: Transport, state: HostState, files: Sequence[str], directories: Sequence[str]) -> HostState:
    """The state with those of the files and directories that are there. Raises HostError."""
    recorded = {path.casefold(): own for path, own in ledger.read(state.registry).installed.files.items()}
    found = await asyncio.gather(*(transport.look(path.replace("\\", "/")) for path in (*files, *directories)))
    hashes = {}
    for path, there in zip(files, found, strict=False):
        own = recorded.get(path.casefold())
        if there is not None:
            hashes[path] = (own.known(there.size, there.modified) if own is not None else None) or CHANGED
    present = tuple(path for path, there in zip(directories, found[len(files) :], strict=True) if there and there.directory)
    return msgspec.structs.replace(state, files=hashes, directories=present)
