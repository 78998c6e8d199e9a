"""What of a host's files and directories is there. An unchanged file is known by its size and its time."""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from transom.hosts.ssh.transport import Transport
from transom.windows.host.state import CHANGED, ObservedState
from transom.windows.ledger import ledger


async def probed(transport: Transport, state: ObservedState, files: Sequence[str], directories: Sequence[str]) -> ObservedState:
    """The state with those of the files and directories that are there. Raises HostError."""
    recorded = {path.casefold(): own for path, own in ledger.read(state.registry).installed.files.items()}
    found = await asyncio.gather(*(transport.look(path.replace("\\", "/")) for path in (*files, *directories)))
    hashes: dict[str, str] = {}
    for path, there in zip(files, found, strict=False):
        own = recorded.get(path.casefold())
        if there is not None:
            hashes[path] = (own.known(there.size, there.modified) if own is not None else None) or CHANGED
    present = tuple(path for path, there in zip(directories, found[len(files) :], strict=True) if there and there.directory)
    return msgspec.structs.replace(state, files=hashes, directories=present)


async def found_files(transport: Transport, state: ObservedState, known: Mapping[str, str]) -> Mapping[str, str]:
    """The SHA-256 of files that are there and are neither in the ledger nor `known`: they are taken over. Raises HostError.

    Some hundred megabytes of programs are read, one file after the other, once for a host.
    """
    recorded = ledger.read(state.registry).installed
    found = {}
    for path in state.files:
        if path not in known and recorded.file(path) is None:
            there = await transport.look(path.replace("\\", "/"))
            sha256 = await transport.digest(path.replace("\\", "/"), there.size) if there and not there.directory else None
            if sha256 is not None:
                found[path] = sha256
    return found
