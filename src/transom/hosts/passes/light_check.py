"""A light check of a host that needed nothing when it was last read: services and file times, by one channel."""

import hashlib
import secrets
import time
from typing import Final

import msgspec

from transom.hosts.passes.base_pass import PassSettings, open_directory
from transom.hosts.scripts import light_check
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.ssh.ssh_client import Access

_KEY: Final = secrets.token_bytes(32)
"""The output of a host may hold a proxy's password: only a keyed hash of it is kept."""


class WatchedItems(msgspec.Struct, frozen=True):
    """What is looked at: services by name, files by path."""

    services: tuple[str, ...]
    files: tuple[str, ...]


class LightCheckResult(msgspec.Struct, frozen=True):
    """`digest`: of what the host shows, None where it shows nothing that can be compared. Others like it: nothing changed."""

    digest: bytes | None
    channels: int = 0
    seconds: float = 0


async def run_light_check(
    access: Access, host_keys: HostKeys, settings: PassSettings, watched: WatchedItems
) -> LightCheckResult:
    """Check a host without writing to it or running a script of Transom's there. Raises HostError."""
    line = light_check.build_check_command(watched.services, watched.files)
    if line is None:
        return LightCheckResult(None)
    started_at = time.monotonic()
    async with open_directory(access, host_keys, settings, only_reads=True, doing="the light check") as directory:
        shown = light_check.parse_check_output(await directory.transport.run_at_prompt(line))
        channels = directory.transport.channels
    digest = hashlib.blake2b(shown, key=_KEY).digest() if shown is not None else None
    return LightCheckResult(digest, channels, time.monotonic() - started_at)
