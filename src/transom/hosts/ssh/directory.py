r"""`C:\Windows\Transom` on a host: what lies there, under which names, and how it is cleaned."""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Iterable, Sequence
from contextlib import suppress

from transom.hosts.errors import DirectoryNotOurs, FileRefused, HostError, NotAdministrator
from transom.hosts.owner import Owner
from transom.hosts.scripts.host_scripts import Base
from transom.hosts.scripts.template import BASE, Script
from transom.hosts.ssh.transport import ATTEMPTS, BETWEEN_ATTEMPTS, Transport, retry_refused

SFTP_BASE = BASE.replace("\\", "/")
CLEARING_SECONDS = 3.0
"""Seconds in which a pass that is called off removes what it was about to put on the host."""
_STALE = 3600
"""Seconds after which another owner's leftover may be deleted."""
# g: gathered, p: a pass, t and v: a lock that was to be taken, or was taken away, f: what an earlier version left
_TEMPORARY = re.compile(r"[fgptv]-([0-9a-f]{8})-[0-9a-f]{1,32}(?:\.tmp)?")
_KEPT = re.compile(r"gather-[0-9a-f]{12}\.cmd(?:\.[0-9a-f]{1,32})?|generation(?:-[0-9a-f]{8})?|s-[0-9a-f]{64}(?:\.part)?")
_LOCK = re.compile("lock")


def format_sftp_path(*names: str) -> str:
    """Return the SFTP path of an entry in the base directory."""
    return "/".join((SFTP_BASE, *names))


def format_windows_path(*names: str) -> str:
    r"""Its path as Windows writes it."""
    return "\\".join((BASE, *names))


class HostDirectory:
    """The base directory as one owner uses it over one transport."""

    def __init__(self, transport: Transport, owner: Owner, *, alone: bool = True) -> None:
        self.transport, self.owner = transport, owner
        self._alone = alone
        """Whether no other process of this owner works on the host: its leftovers may then be deleted."""
        self._seen: set[str] = set()
        """The scripts that this pass has compared."""
        self.base: Base = "found"
        """`closed` once it is known that only administrators can have created files there."""
        self.is_new = False
        """Whether this pass has made the directory."""
        self.is_changing = False
        """Whether the script that changes the host was started: what the directory holds is of use from then on."""
        self._placed: set[str] = set()
        """The directories of scripts that this pass has made and not removed."""

    async def ensure_exists(self) -> None:
        """Create the directory if it does not exist. A host from an earlier pass needs no call. Raises HostError."""
        if await self.transport.make_directory(SFTP_BASE):
            self.base, self.is_new = "made", True
        elif await self.transport.read_status(SFTP_BASE) is None:
            raise NotAdministrator(
                f"{BASE} cannot be made: the user must be an administrator of the host, and Windows has to lie in C:\\Windows"
            )

    async def has_script(self, script: Script) -> bool:
        """Return True if the script exists unchanged; checked once per pass. Raises FileRefused for other content."""
        if script.name in self._seen:
            return True
        present = await self.transport.read(format_sftp_path(script.name), len(script.content) + 1)
        if present is not None and present != script.content:
            raise FileRefused(
                f"{format_windows_path(script.name)} was changed by another user or program; remove it, and "
                f"check who can write to {BASE}",
            )
        if present is not None:
            self._seen.add(script.name)
        return present is not None

    async def install_script(self, script: Script, suffix: str) -> None:
        """Write a new script; it gets its name when it is complete. Raises FileRefused."""
        await self.transport.create(format_sftp_path(f"{script.name}.{suffix}"), script.content)
        try:
            await self.rename_with_retry(f"{script.name}.{suffix}", script.name)
        except FileRefused:
            # another pass was quicker; its script is the same, or `has` reports the difference
            await self.transport.remove(format_sftp_path(f"{script.name}.{suffix}"))
            if not await self.has_script(script):
                raise

    def generate_name(self) -> str:
        """Generate a name for one script's directory, which identifies this owner after an interrupted pass."""
        return f"p-{self.owner.tag}-{secrets.token_hex(4)}"

    async def put_files(self, name: str, files: Sequence[Script]) -> None:
        """Put a directory of files, all or none: it gets its name when all are complete. Raises FileRefused."""
        temporary = f"{name}.tmp"
        self._placed |= {name, temporary}
        try:
            if not await self.transport.make_directory(format_sftp_path(temporary)):
                raise FileRefused(f"{format_windows_path(temporary)} cannot be made (is the disk full?)")
            await asyncio.gather(
                *(self.transport.create(format_sftp_path(temporary, file.name), file.content) for file in files)
            )
            await self.rename_with_retry(temporary, name)
        except FileRefused:
            await self.remove_subdirectory(temporary)
            raise
        except asyncio.CancelledError:
            # the canceller waits; what still exists then is left over from an interrupted pass
            await _clean_up_within(CLEARING_SECONDS, self.remove_subdirectory(temporary))
            raise

    async def rename_with_retry(self, old: str, new: str) -> None:
        """Give something its name, again and again for a while: a virus scanner may have it open. Raises FileRefused."""

        async def has_target() -> bool:
            return await self.transport.read_modified(format_sftp_path(new)) is not None

        await retry_refused(lambda: self.transport.rename(format_sftp_path(old), format_sftp_path(new)), is_final=has_target)

    async def check_new_directory(self) -> None:
        """Check that nothing was put into a new directory before it was closed. Raises DirectoryNotOurs."""
        # another owner's first pass at this very moment is no stranger
        known = (_TEMPORARY, _KEPT, _LOCK)
        names = await self.transport.list_names(SFTP_BASE)
        if not all(any(pattern.fullmatch(name) for pattern in known) for name in names):
            raise DirectoryNotOurs(f"{BASE} holds things that Transom did not put there; look who made it, and remove it")

    async def remove_subdirectory(self, directory: str, files: Sequence[str] = ()) -> bool:
        """Remove a temporary directory; `files` are those that should be all that is in it. Whether it is gone.

        It is tried for a while, since a virus scanner may read what was just written. What a process has open for longer
        stays, and its directory with it; the next pass finds them again.
        """
        self._placed.discard(directory)
        if files and await self._remove(directory, files):
            return True
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(BETWEEN_ATTEMPTS if attempt else 0)
            if await self._remove_all(directory):
                return True
        return False

    async def _remove_all(self, directory: str) -> bool:
        return await self._remove(directory, await self.transport.list_names(format_sftp_path(directory)))

    async def _remove(self, directory: str, files: Sequence[str]) -> bool:
        paths = [format_sftp_path(directory, name) for name in files]
        return (await self._remove_files(paths, self.transport.remove_directory(format_sftp_path(directory))))[-1] is True

    async def _remove_files(self, paths: Iterable[str], *last: Awaitable[object]) -> list[object]:
        """Remove files, those that a process has open excepted, and then what comes last; all are asked for at once."""
        answers = await asyncio.gather(*map(self.transport.remove, paths), *last, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, FileRefused):
                raise answer
        return answers

    async def remove_leftovers(self, left: Sequence[str], reference: str) -> None:
        """Remove what cut passes left: our own at once, another's after an hour by the clock of `reference`, which is ours."""
        now: int | None = None
        for name in left:
            owned = _TEMPORARY.fullmatch(name)
            if not owned:
                continue
            if owned[1] != self.owner.tag or not self._alone:
                now = now if now is not None else await self.transport.read_modified(format_sftp_path(reference))
                age = (now or 0) - (await self.transport.read_modified(format_sftp_path(name)) or 0)
                if age < _STALE:
                    continue
            if name.startswith("p-") and await self.transport.read_modified(format_sftp_path("lock", name)) is not None:
                continue
            await self._remove_all(name)

    async def clear_after_stop(self, stopped: "HostDirectory") -> None:
        """Remove what a stopped pass has put here, which used the directory as `stopped`. Raises HostError.

        If the host is not held, another process of this owner may have files under the same tag: then only those that the
        pass named are removed. The files of a change that is still running stay.
        """
        if stopped.is_new and not stopped.is_changing and await self.remove_base():
            return
        for name in await self.transport.list_names(SFTP_BASE):
            owned = _TEMPORARY.fullmatch(name)
            if not owned or owned[1] != self.owner.tag or not (self._alone or name in stopped._placed):
                continue
            if await self.transport.read_modified(format_sftp_path("lock", name)) is None:
                await self.remove_subdirectory(name)

    async def remove_base(self) -> bool:
        """Remove Transom's files and the directory, unless another process works there; return True if it is deleted."""
        if not self._alone:
            # the other process is about to run what lies there
            return False
        for attempt in range(ATTEMPTS):
            # the last act of a job may still be going on
            await asyncio.sleep(BETWEEN_ATTEMPTS if attempt else 0)
            names = await self.transport.list_names(SFTP_BASE)
            if any(not self._is_ours(name) for name in names):
                return False
            for name in filter(_TEMPORARY.fullmatch, names):
                await self._remove_all(name)
            await self._remove_files(format_sftp_path(name) for name in names if _KEPT.fullmatch(name))
            if await self.transport.remove_directory(SFTP_BASE):
                return True
        return False

    async def remove_added_files(self, before: Sequence[str]) -> None:
        """Remove what has come to these names since; the whole directory where there were none."""
        if not before:
            await self.remove_base()
            return
        added = set(await self.transport.list_names(SFTP_BASE)) - set(before)
        for name in filter(_TEMPORARY.fullmatch, filter(self._is_ours, added)):
            await self.remove_subdirectory(name)
        await self._remove_files(format_sftp_path(name) for name in added if _KEPT.fullmatch(name))

    def _is_ours(self, name: str) -> bool:
        owned = _TEMPORARY.fullmatch(name)
        return (self._alone and owned[1] == self.owner.tag) if owned else _KEPT.fullmatch(name) is not None


async def _clean_up_within(seconds: float, clearing: Awaitable[object]) -> None:
    """Clear up after a pass that was called off, and give up after so long, or where the host is gone."""
    with suppress(HostError, TimeoutError):
        async with asyncio.timeout(seconds):
            await clearing
