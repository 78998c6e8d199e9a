"""What is read of another operator on a host that is taken over from it, before the first pass."""

from transom.hosts.passes.passes import PassSettings, opened
from transom.hosts.ssh.connection import Access
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.steps.gather import understood
from transom.windows.parts.adopted import IMPORTED, IMPORTED_LIMIT, Adopted


async def taken(access: Access, host_keys: HostKeys, settings: PassSettings) -> Adopted:
    """What the peer has noted there. Raises HostError."""
    async with opened(access, host_keys, settings, only_reads=True, doing=f"reading {IMPORTED}") as directory:
        imported = await directory.transport.read(IMPORTED.replace("\\", "/"), IMPORTED_LIMIT)
        return await understood(lambda: Adopted.of(imported), len(imported or b""))
