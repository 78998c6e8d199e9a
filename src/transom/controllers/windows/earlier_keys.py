"""Hosts that only an earlier key opens, as the command line meets them: moved to the key of their Secret, then worked on.

The operator knows from their status which key opens them (`key_rotation`). Here it is tried.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from transom.controllers.windows.hosts import Target, Work
from transom.hosts import key_move
from transom.hosts.errors import AuthenticationRefused, HostError
from transom.hosts.known_hosts import HostKeys
from transom.hosts.passes import PassResult, Settings
from transom.windows.instance import PREVIOUS
from transom.windows.steps import Step

_STEP: Final = Step("file", key_move.KEYS, "replace", f"{PREVIOUS} opens the host, and the key after it does not")


def moving(work: Work, host_keys: HostKeys, settings: Settings, *, dry_run: bool = False) -> Work:
    """The same passes, where the host has to be moved first included; with `dry_run` it is read with the earlier key."""

    async def moved(target: Target, admit: Callable[[], bool]) -> PassResult:
        found = await work(msgspec.structs.replace(target, previous=()), admit)
        if not target.previous or not isinstance(found.error, AuthenticationRefused):
            return found
        if dry_run:
            read = await work(target, admit)
            return read if isinstance(read.error, AuthenticationRefused) else msgspec.structs.replace(read, first=(_STEP,))
        if not admit():
            return PassResult(waiting=True)
        alone = msgspec.structs.replace(target, previous=())
        try:
            await key_move.move(alone.access, target.previous, host_keys, settings)
        except HostError as error:
            return PassResult(error=error, begun=isinstance(error, key_move.AGAINST_THE_KEY))
        return msgspec.structs.replace(await work(alone, lambda: True), first=(_STEP,), begun=True)

    return moved
