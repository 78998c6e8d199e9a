"""What of a host's files and directories is there. An unchanged file is known by its size and its time."""

import asyncio
from collections.abc import Sequence

import msgspec

from transom.hosts.transport import Transport
from transom.windows import ledger
from transom.windows.state import CHANGED, HostState


async def probed(transport: Transport, state: HostState, files: Sequence[str], directories: Sequence[str]) -> HostState:
    """The state with those of the files and directories that are there. Raises HostError."""
    held = ledger.read(state.registry).installed
    found = await asyncio.gather(*(transport.look(path.replace("\\", "/")) for path in (*files, *directories)))
    hashes = {}
    for path, there in zip(files, found, strict=False):
        own = held.file(path)
        if there is not None:
            hashes[path] = (own.known(there.size, there.modified) if own is not None else None) or CHANGED
    present = tuple(path for path, there in zip(directories, found[len(files) :], strict=True) if there and there.directory)
    return msgspec.structs.replace(state, files=hashes, directories=present)
