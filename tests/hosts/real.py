"""A host that there is, asked over SSH alone: a Windows machine that somebody gives to the tests.

`uv run pytest tests/hosts/passes -m real --host Administrator@ADDRESS:PORT --host-key-file KEY`. Its services `recorder-a` and
`recorder-b` are made where they are not there, with what lies in `C:\\lab`, and removed at the end. What only a bench can do,
a fault or a boot when a test says so, skips the test with these words.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import asyncssh
import pytest
from lab.machine import BOOTS
from tests.hosts.machines import BASE, FIRST, SECOND

from lab import build
from transom.hosts.ssh.connection import Access
from transom.proxy.secret import Secret
from transom.windows.host.queries import LEDGER, RESTARTS, SERVICES

_T = TypeVar("_T")
OWN = r"C:\TransomTest"
LAB = r"C:\lab"
MARK = "real"
_KINDS = {3: "open", 4: "close", 5: "read", 6: "write", 7: "lstat", 9: "setstat", 11: "opendir", 13: "remove", 14: "mkdir"}
_KINDS |= {15: "rmdir", 17: "stat", 18: "rename"}
"""SFTP's requests by their numbers (draft-ietf-secsh-filexfer-02, 3)."""


class RealHost:
    """`Host` over SSH."""

    def __init__(self, address: str, key: Path, patch: pytest.MonkeyPatch) -> None:
        user, _, place = address.rpartition("@")
        name, _, port = place.rpartition(":")
        self.access = Access(name or place, int(port or 22), user or "Administrator", (Secret(key.read_text("utf-8")),))
        self._asked: list[str] = []
        self._made = False
        _count(self._asked, patch)

    # ---- set up and taken away ---------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Make the two services where they are missing."""
        if await self.state(FIRST):
            return
        self._made = True
        async with self._files() as sftp:
            await sftp.makedirs(_path(LAB), exist_ok=True)
            await sftp.put(str(build.program(build.RECORDER)), _path(rf"{LAB}\recorder.exe"))
        await self._run(
            *(
                rf'sc.exe create {one} binPath= "{LAB}\recorder.exe {one} {LAB}\{one}.jsonl" start= auto'
                for one in (FIRST, SECOND)
            ),
            rf"reg.exe add {SERVICES}\{SECOND} /v DependOnService /t REG_MULTI_SZ /d {FIRST} /f /reg:64",
        )

    async def leave(self) -> None:
        """Take away what `prepare` made."""
        lines = [f"rmdir /s /q {BASE}", f"reg.exe delete {LEDGER} /f /reg:64"]
        if self._made:
            lines += [f"sc.exe stop {one}" for one in (SECOND, FIRST)] + [f"sc.exe delete {one}" for one in (SECOND, FIRST)]
            lines += [f"rmdir /s /q {LAB}"]
        await self._run(*lines)
        async with self._files() as sftp:
            with suppress(asyncssh.SFTPError):
                await sftp.rmtree(_path(OWN))

    async def restore(self) -> None:
        await self._run(
            f"reg.exe delete {LEDGER} /f /reg:64",
            f"rmdir /s /q {BASE}",
            rf"reg.exe delete {SERVICES}\{FIRST} /v Environment /f /reg:64",
        )
        for service in (FIRST, SECOND):
            await self._reach(service, "RUNNING", "start")

    # ---- what tests ask ----------------------------------------------------------------------------------------------

    async def export(self, key: str) -> str:
        await self._run(rf"del {OWN}\export.reg", rf'reg.exe export "{key}" {OWN}\export.reg /y /reg:64')
        async with self._files() as sftp:
            try:
                async with sftp.open(_path(rf"{OWN}\export.reg"), "rb") as file:
                    return (await file.read()).decode("utf-16").replace("\r\n", "\n")
            except asyncssh.SFTPNoSuchFile:
                return ""

    def files(self) -> Sequence[str]:
        return sorted(name for name in _apart(self._names(BASE)) if name not in (".", ".."))

    def has_base(self) -> bool:
        return _apart(self._exists(BASE))

    def put(self, name: str, content: str) -> None:
        _apart(self._write("\\".join((BASE, *name.split("/"))), content))

    async def state(self, service: str) -> str:
        for line in (await self._run(f"sc.exe query {service}")).splitlines():
            if line.split()[:1] == ["STATE"]:
                return line.split()[-1]
        return ""

    async def starts(self, service: str) -> int:
        async with self._files() as sftp, sftp.open(_path(rf"{LAB}\{service}.jsonl"), "rb") as file:
            return sum(json.loads(line)["event"] == "start" for line in (await file.read()).splitlines())

    async def stop(self, service: str) -> None:
        await self._reach(service, "STOPPED", "stop")

    async def note(self, service: str, note: str) -> None:
        await self._run(f"reg.exe add {RESTARTS} /v {service} /t REG_SZ /d {note} /f /reg:64")

    async def boot_id(self) -> int:
        found = next(line for line in (await self.export(BOOTS)).splitlines() if line.startswith('"BootId"=dword:'))
        return int(found.rpartition(":")[2], 16)

    def mark(self) -> None:
        self._asked.clear()

    def requests(self) -> list[str]:
        return list(self._asked)

    # ---- what only a bench can ---------------------------------------------------------------------------------------

    async def reboot(self) -> None:
        _never("a boot")

    def fail(self, at: int, when: Literal["before", "after"] = "before", action: Literal["cut", "hang"] = "cut") -> None:
        _never("a fault")

    async def cut_in_restarts(self, at: int) -> None:
        _never("a fault")

    def sample(self, requests: Sequence[str]) -> Sequence[int]:
        return ()

    def came(self) -> bool:
        return False

    # ---- SSH ---------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncssh.SSHClientConnection]:
        counted = list(self._asked)
        key = asyncssh.import_private_key(self.access.keys[0].reveal())
        place = {"port": self.access.port, "username": self.access.username}
        async with asyncssh.connect(
            self.access.address, client_keys=[key], known_hosts=None, config=None, **place
        ) as connection:  # type: ignore[arg-type]
            yield connection
        self._asked[:] = counted

    @asynccontextmanager
    async def _files(self) -> AsyncIterator[asyncssh.SFTPClient]:
        async with self._connection() as connection, connection.start_sftp_client() as sftp:
            yield sftp

    async def _run(self, *lines: str) -> str:
        """What the lines of a script print; cmd and PowerShell as default shell read its path alike."""
        async with self._connection() as connection:
            async with connection.start_sftp_client() as sftp:
                await sftp.makedirs(_path(OWN), exist_ok=True)
                async with sftp.open(_path(rf"{OWN}\run.cmd"), "w") as file:
                    await file.write("".join(f"{line}\r\n" for line in ("@echo off", *lines)))
            done = await connection.run(rf"cmd.exe /d /c {OWN}\run.cmd")
        return str(done.stdout)

    async def _reach(self, service: str, state: str, control: str) -> None:
        async with asyncio.timeout(120):
            while (await self.state(service)) != state:
                await self._run(f"sc.exe {control} {service}")

    async def _names(self, path: str) -> Sequence[str]:
        async with self._files() as sftp:
            return [str(name) for name in await sftp.listdir(_path(path))]

    async def _exists(self, path: str) -> bool:
        async with self._files() as sftp:
            return await sftp.exists(_path(path))

    async def _write(self, path: str, content: str) -> None:
        async with self._files() as sftp:
            await sftp.makedirs(_path(path.rpartition("\\")[0]), exist_ok=True)
            async with sftp.open(_path(path), "w") as file:
                await file.write(content)


def _path(windows: str) -> str:
    return windows.replace("\\", "/")


def _apart(work: Coroutine[Any, Any, _T]) -> _T:
    """The result of something that waits, for who cannot."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _never(what: str) -> NoReturn:
    pytest.skip(f"{what} when a test says so is what only a bench can do")


def _count(asked: list[str], patch: pytest.MonkeyPatch) -> None:
    """Writes down what the SSH library asks of any host."""
    session, request = asyncssh.SSHClientConnection.create_session, asyncssh.sftp.SFTPClientHandler._make_request

    async def create_session(self: Any, factory: Any, command: Any = (), **options: Any) -> Any:
        asked.append("channel")
        if command:
            asked.append(f"exec {command}")
        return await session(self, factory, command, **options)

    async def make_request(self: Any, kind: Any, *content: Any) -> Any:
        asked.append(_KINDS.get(kind, str(kind)))
        return await request(self, kind, *content)

    patch.setattr(asyncssh.SSHClientConnection, "create_session", create_session)
    patch.setattr(asyncssh.sftp.SFTPClientHandler, "_make_request", make_request)
