"""What is read of another operator on a host that is taken over from it, before the first pass."""

from transom.hosts.connection import Access
from transom.hosts.known_hosts import HostKeys
from transom.hosts.passes import Settings, opened
from transom.windows.taken import IMPORTED, IMPORTED_LIMIT, Taken


async def taken(access: Access, host_keys: HostKeys, settings: Settings) -> Taken:
    """What the peer has noted there. Raises HostError."""
    async with opened(access, host_keys, settings, only_reads=True, doing=f"reading {IMPORTED}") as directory:
        return Taken.of(await directory.transport.read(IMPORTED.replace("\\", "/"), IMPORTED_LIMIT))
