"""Hosts that only an earlier key opens, as the command line meets them: moved to the key of their Secret, then worked on.

The operator knows from their status which key opens them (`key_rotation`). Here it is tried.
"""

from typing import Final

import msgspec

from transom.apply.target import Target, Work
from transom.hosts.errors import AuthenticationRefused, HostError
from transom.hosts.passes import key_move
from transom.hosts.passes.passes import EVERYBODY, Admit, PassResult, PassSettings
from transom.hosts.ssh.known_hosts import HostKeys
from transom.windows.host.steps import Step
from transom.windows.nodes.instance import PREVIOUS

_STEP: Final = Step("file", key_move.KEYS, "replace", f"{PREVIOUS} opens the host, and the key after it does not")


def moving(work: Work, host_keys: HostKeys, settings: PassSettings, *, dry_run: bool = False) -> Work:
    """The same passes, where the host has to be moved first included; with `dry_run` it is read with the earlier key."""

    async def moved(target: Target, admit: Admit) -> PassResult:
        alone = msgspec.structs.replace(target, previous=())
        found = await work(alone, admit)
        if not target.previous or not isinstance(found.error, AuthenticationRefused):
            return found
        if dry_run:
            read = await work(target, admit)
            return read if isinstance(read.error, AuthenticationRefused) else msgspec.structs.replace(read, first=(_STEP,))
        if not await admit():
            return PassResult(waiting=True)
        try:
            await key_move.move(alone.access, target.previous, host_keys, settings)
        except HostError as error:
            return PassResult(error=error, begun=isinstance(error, key_move.AGAINST_THE_KEY))
        return msgspec.structs.replace(await work(alone, EVERYBODY), first=(_STEP,), begun=True)

    return moved
