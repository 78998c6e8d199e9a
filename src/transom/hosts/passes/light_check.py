"""A light check of a host that needed nothing when it was last read: services and file times, by one channel."""

import hashlib
import secrets
import time
from typing import Final

import msgspec

from transom.hosts.passes import PassSettings, opened
from transom.hosts.scripts import light_check
from transom.hosts.ssh import Access
from transom.hosts.ssh.known_hosts import HostKeys

_KEY: Final = secrets.token_bytes(32)
"""What a host shows may hold a proxy's password: only a hash of it is kept, which nobody else can compare."""


class Watched(msgspec.Struct, frozen=True):
    """What is looked at: services by name, files by path."""

    services: tuple[str, ...]
    files: tuple[str, ...]


class LightLook(msgspec.Struct, frozen=True):
    """`digest`: of what the host shows, None where it shows nothing that can be compared. Others like it: nothing changed."""

    digest: bytes | None
    channels: int = 0
    seconds: float = 0


async def look(access: Access, host_keys: HostKeys, settings: PassSettings, watched: Watched) -> LightLook:
    """How the host is now. Nothing is written on it, and no script of ours is run that would have to be compared before.

    Raises HostError.
    """
    line = light_check.line(watched.services, watched.files)
    if line is None:
        return LightLook(None)
    begun = time.monotonic()
    async with opened(access, host_keys, settings, only_reads=True, doing="the light check") as directory:
        shown = light_check.shown(await directory.transport.at_prompt(line))
        channels = directory.transport.channels
    digest = hashlib.blake2b(shown, key=_KEY).digest() if shown is not None else None
    return LightLook(digest, channels, time.monotonic() - begun)
