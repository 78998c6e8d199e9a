r"""`C:\ProgramData\Transom` on a host: what lies there, under which names, and how it is cleaned."""

import asyncio
import re
import secrets
from collections.abc import Sequence

from transom.hosts.errors import DirectoryNotOurs, FileRefused
from transom.hosts.owner import Owner
from transom.hosts.script import Found
from transom.hosts.template import BASE, Script
from transom.hosts.transport import Transport

SFTP_BASE = BASE.replace("\\", "/")
_ATTEMPTS, _BETWEEN_ATTEMPTS = 10, 0.3
_STALE = 3600
"""Seconds after which another owner's left-over is nobody's."""
# g: gathered, p: a pass, t and v: a lock that was to be taken, or was taken away
_TEMPORARY = re.compile(r"[gptv]-([0-9a-f]{8})-[0-9a-f]+(?:\.tmp)?")
_KEPT = re.compile(r"gather-[0-9a-f]{12}\.cmd(?:\.[0-9a-f]+)?|generation|s-[0-9a-f]{64}(?:\.part)?")
_LOCK = re.compile("lock")


def remote(*names: str) -> str:
    """The SFTP path of something in the base directory."""
    return "/".join((SFTP_BASE, *names))


def local(*names: str) -> str:
    r"""Its path as Windows writes it."""
    return "\\".join((BASE, *names))


class Directory:
    """The base directory as one owner uses it over one transport."""

    def __init__(self, transport: Transport, owner: Owner, *, alone: bool = True) -> None:
        self.transport, self.owner = transport, owner
        self._alone = alone
        """Whether no other process of this owner is at work on the host: what it left is then nobody's."""
        self._seen: set[str] = set()
        """The scripts that this pass has compared."""
        self.found: Found = "found"
        """`made` until the directory, made by this pass, was closed to others."""

    async def prepare(self) -> None:
        """Make the directory if it is not there. A host that was worked on before needs no call. Raises HostError."""
        if await self.transport.make_directory(SFTP_BASE):
            self.found = "made"

    async def has(self, script: Script) -> bool:
        """Whether the script is there as it should be; looked at once in a pass. Raises FileRefused for other content."""
        if script.name in self._seen:
            return True
        held = await self.transport.read(remote(script.name), len(script.content) + 1)
        if held is not None and held != script.content:
            raise FileRefused(
                f"{local(script.name)} was changed by somebody; remove it, and see who can write to {BASE}",
            )
        if held is not None:
            self._seen.add(script.name)
        return held is not None

    async def install(self, script: Script, suffix: str) -> None:
        """Put a script that is not there yet; it gets its name when it is complete. Raises FileRefused."""
        await self.transport.create(remote(f"{script.name}.{suffix}"), script.content)
        try:
            await self.rename(f"{script.name}.{suffix}", script.name)
        except FileRefused:
            # another pass was quicker; its script is the same, or `has` says so
            await self.transport.remove(remote(f"{script.name}.{suffix}"))
            if not await self.has(script):
                raise

    def new_name(self) -> str:
        """A name for the directory of one script: what a cut pass leaves under it is known as this owner's."""
        return f"p-{self.owner.tag}-{secrets.token_hex(4)}"

    async def put(self, name: str, files: Sequence[Script]) -> None:
        """A directory of files, all or none: they get its name when every one of them is complete. Raises FileRefused."""
        temporary = f"{name}.tmp"
        try:
            if not await self.transport.make_directory(remote(temporary)):
                raise FileRefused(f"{local(temporary)} cannot be made (is the disk full?)")
            await asyncio.gather(*(self.transport.create(remote(temporary, file.name), file.content) for file in files))
            await self.rename(temporary, name)
        except (FileRefused, asyncio.CancelledError):
            await self.remove(temporary)
            raise

    async def rename(self, old: str, new: str) -> None:
        """Give something its name, again and again for a while: a virus scanner may have it open. Raises FileRefused."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self.transport.rename(remote(old), remote(new))
            except FileRefused:
                if await self.transport.modified(remote(new)) is not None:
                    raise
                await asyncio.sleep(_BETWEEN_ATTEMPTS)
        return await self.transport.rename(remote(old), remote(new))

    async def check_made(self) -> None:
        """After a directory that we made was closed: nobody may have put anything into it before. Raises DirectoryNotOurs."""
        # another owner's first pass at this very moment is no stranger
        known = (_TEMPORARY, _KEPT, _LOCK)
        names = await self.transport.names(SFTP_BASE)
        if not all(any(pattern.fullmatch(name) for pattern in known) for name in names):
            raise DirectoryNotOurs(f"{BASE} holds things that Transom did not put there; look who made it, and remove it")
        self.found = "found"

    async def remove(self, directory: str, files: Sequence[str] = ()) -> bool:
        """Remove a temporary directory; `files` are those that should be all that is in it. Whether it is gone."""
        if files and await self._remove(directory, files):
            return True
        return await self._remove(directory, await self.transport.names(remote(directory)))

    async def _remove(self, directory: str, files: Sequence[str]) -> bool:
        *removed, gone = await asyncio.gather(
            *(self.transport.remove(remote(directory, name)) for name in files),
            self.transport.remove_directory(remote(directory)),
            return_exceptions=True,
        )
        # a file that a process has open stays, and its directory with it; the next pass finds them again
        lost = [
            answer for answer in (*removed, gone) if isinstance(answer, BaseException) and not isinstance(answer, FileRefused)
        ]
        if lost:
            raise lost[0]
        return gone is True

    async def tidy(self, left: Sequence[str], reference: str) -> None:
        """Remove what cut passes left: our own at once, another's after an hour by the clock of `reference`, which is ours."""
        now: int | None = None
        for name in left:
            owned = _TEMPORARY.fullmatch(name)
            if not owned:
                continue
            if owned[1] != self.owner.tag or not self._alone:
                now = now if now is not None else await self.transport.modified(remote(reference))
                age = (now or 0) - (await self.transport.modified(remote(name)) or 0)
                if age < _STALE:
                    continue
            if name.startswith("p-") and await self.transport.modified(remote("lock", name)) is not None:
                continue
            await self.remove(name)

    async def dismantle(self) -> bool:
        """Remove everything of ours and the directory, unless somebody else is at work there. Whether it is gone."""
        if not self._alone:
            # the other process is about to run what lies there
            return False
        for attempt in range(_ATTEMPTS):
            # the last act of a job may still be going on
            await asyncio.sleep(_BETWEEN_ATTEMPTS if attempt else 0)
            names = await self.transport.names(SFTP_BASE)
            if any(not self._is_ours(name) for name in names):
                return False
            for name in filter(_TEMPORARY.fullmatch, names):
                await self.remove(name)
            await asyncio.gather(*(self.transport.remove(remote(name)) for name in names if _KEPT.fullmatch(name)))
            if await self.transport.remove_directory(SFTP_BASE):
                return True
        return False

    def _is_ours(self, name: str) -> bool:
        owned = _TEMPORARY.fullmatch(name)
        return (self._alone and owned[1] == self.owner.tag) if owned else _KEPT.fullmatch(name) is not None
