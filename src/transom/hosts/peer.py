"""What is read of another operator on a host that is taken over from it, before the first pass."""

import asyncio

from transom.hosts.connection import Access
from transom.hosts.errors import PassTimedOut
from transom.hosts.known_hosts import HostKeys
from transom.hosts.passes import Settings
from transom.hosts.transport import ssh
from transom.windows.taken import IMPORTED, IMPORTED_LIMIT, Taken


async def taken(access: Access, host_keys: HostKeys, settings: Settings) -> Taken:
    """What the peer has noted there. Raises HostError."""
    try:
        async with asyncio.timeout(settings.timeouts.whole), ssh(access, host_keys, settings.timeouts) as transport:
            return Taken.of(await transport.read(IMPORTED.replace("\\", "/"), IMPORTED_LIMIT))
    except TimeoutError:
        raise PassTimedOut(f"reading {IMPORTED} took longer than {settings.timeouts.whole:g} s") from None
