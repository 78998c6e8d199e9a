r"""A host moved from one SSH key to another: never without a key that opens it.

Microsoft, "Key-based authentication in OpenSSH for Windows": the keys of administrators are in
`C:\ProgramData\ssh\administrators_authorized_keys`, which only SYSTEM and Administrators may write.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from transom.hosts.errors import AuthenticationRefused, FileRefused, HostError, ScriptFailed
from transom.hosts.passes.base_pass import PassSettings, build_owner_directory, hold_host, remove_directory_without_ledger
from transom.hosts.scripts.template import Script, render_script
from transom.hosts.ssh.directory import HostDirectory, format_windows_path
from transom.hosts.ssh.known_hosts import HostKeys
from transom.hosts.ssh.ssh_client import Access, format_public_key
from transom.hosts.ssh.transport import open_ssh
from transom.hosts.steps.gather import gather
from transom.proxy.secret import Secret
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState
from transom.windows.host.queries import Queries
from transom.windows.nodes import authorized_keys

_NAME: Final = "administrators_authorized_keys"
KEYS: Final = rf"C:\ProgramData\ssh\{_NAME}"
_LIMIT: Final = 2**16
"""The maximum size, in bytes, of a list of administrators' keys."""


class KeyRefused(AuthenticationRefused):
    """The host takes neither the key nor an earlier one. Nothing was changed."""


class KeyNotFound(HostError):
    """The host takes an earlier key, and keeps it somewhere else than Windows' OpenSSH does. Nothing was changed."""


class NewKeyRefused(HostError):
    """The line of the new key was written, and the host rejects it; the earlier key still exists."""


AGAINST_THE_KEY: Final = (NewKeyRefused, ScriptFailed, FileRefused)
"""What speaks against the key, or the way it is put in place. Other troubles are the host's own."""


async def rotate_ssh_key(access: Access, former_keys: Sequence[Secret], host_keys: HostKeys, settings: PassSettings) -> None:
    """Make the host accept `access`'s one key, and no longer the `former_keys` ones.

    The lines of the former keys are removed only after a connection with the new one succeeded. After an interruption at
    any point, another call resumes there. A host whose ledger names another manager is not changed. Raises HostError;
    KeyUnusable for an invalid key.
    """
    moving = _KeyMove(access, tuple(former_keys), host_keys, settings)
    async with hold_host(access, settings, doing="the move to another key") as alone:
        await moving.run(alone=alone)


class _KeyMove:
    def __init__(self, access: Access, former: tuple[Secret, ...], host_keys: HostKeys, settings: PassSettings) -> None:
        self._access, self._host_keys, self._settings = access, host_keys, settings
        self._former = former
        self._new = format_public_key(access.keys[0])
        self._lines = [line for line in map(format_public_key, former) if line != self._new]
        self._found: ObservedState | None = None
        """What was read when the directory was seen to be ours, once in a move."""

    async def run(self, *, alone: bool) -> None:
        try:
            await self._edit_authorized_keys(self._access, self._remove_former_keys, alone=alone)
        except AuthenticationRefused:
            pass
        else:
            return
        try:
            if not self._former:
                raise AuthenticationRefused("no earlier key exists")
            earlier = msgspec.structs.replace(self._access, keys=self._former)
            await self._edit_authorized_keys(earlier, self._insert_key, alone=alone)
        except AuthenticationRefused:
            raise KeyRefused(
                f"the host takes neither the key nor one before it, as {self._access.username}; add this line to {KEYS} on the "
                f"host: {self._new} (a Machine of a MachineSet is replaced instead, one at a time)"
            ) from None
        try:
            await self._edit_authorized_keys(self._access, self._remove_former_keys, alone=alone)
        except AuthenticationRefused:
            raise NewKeyRefused(
                f"the line of the new key is in {KEYS}, and the host does not take the key; the one before it still opens the "
                "host. Look at the log of its SSH server, and give a key of another type where it refuses this one"
            ) from None

    def _insert_key(self, content: bytes) -> bytes:
        changed = authorized_keys.insert_key_after(content, self._lines, self._new)
        if changed is None:
            raise KeyNotFound(
                f"the host takes the key before this one, and its line is not in {KEYS}; add this line where the host keeps "
                f"its keys: {self._new}"
            )
        return changed

    def _remove_former_keys(self, content: bytes) -> bytes:
        # where the file does not have the key that let us in, the host keeps its keys elsewhere
        return authorized_keys.without_keys(content, self._lines) if authorized_keys.has_key(content, self._new) else content

    async def _edit_authorized_keys(self, access: Access, change: Callable[[bytes], bytes], *, alone: bool) -> None:
        """Edit the key file over a separate connection, if the change modifies it."""
        async with open_ssh(access, self._host_keys, self._settings.timeouts) as transport:
            lines = await transport.read(KEYS.replace("\\", "/"), _LIMIT + 1) or b""
            if len(lines) > _LIMIT:
                raise FileRefused(f"{KEYS} is larger than {_LIMIT:,} bytes: it is unchanged")
            changed = change(lines)
            directory = build_owner_directory(transport, self._settings.owner, alone=alone)
            if changed != lines:
                # makes and closes the directory where the host has none, and sees whose it is
                self._found = self._found or await gather(directory, Queries())
                self._settings.manager.require_same_manager(ledger.read(self._found.registry).manager)
                await self._write_authorized_keys(directory, changed)
            if self._found is not None and access is self._access:
                await remove_directory_without_ledger(directory, self._found)

    async def _write_authorized_keys(self, directory: HostDirectory, content: bytes) -> None:
        name = directory.generate_name()
        script = render_script("authorize.cmd", {"KEYS": KEYS, "PASS": name, "NAME": _NAME})
        await directory.put_files(name, [Script(_NAME, content), Script("authorize.cmd", script)])
        self._settings.permit()
        ended = await directory.transport.run(format_windows_path(name, "authorize.cmd"))
        await directory.remove_subdirectory(name, ("authorize.cmd", "acl"))
        if not ended.succeeded:
            raise ScriptFailed(f"{KEYS} could not be replaced, and is unchanged; the user must be an administrator of the host")
