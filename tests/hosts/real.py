"""A host that there is, asked over SSH alone: a Windows machine that somebody gives to the tests.

`uv run pytest tests/hosts/passes -m real --host Administrator@ADDRESS:PORT --host-key-file KEY`. Its services `recorder-a` and
`recorder-b` are made where they are not there, with what lies in `C:\\lab`, and removed at the end. What goes wrong
by order goes wrong on our side of the connection; tests that boot their host ask for a `bench` instead.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar
from weakref import WeakSet

import asyncssh
import pytest
from lab.machine import BOOTS
from tests.hosts.machines import BASE, FIRST, SECOND

from lab import build
from transom.hosts.ssh.ssh_client import Access
from transom.proxy.secret import Secret
from transom.windows.host.host_state import ServiceState
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
        self._made = False
        self._wire = _Wire(patch)

    # ---- set up and taken away ---------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Make the two services where they are missing."""
        if await self.state(FIRST):
            return
        self._made = True
        async with self._files() as sftp:
            await sftp.makedirs(_path(LAB), exist_ok=True)
            await sftp.put(str(build.build_program(build.RECORDER)), _path(rf"{LAB}\recorder.exe"))
        await self._run(
            *(
                rf'sc.exe create {item} binPath= "{LAB}\recorder.exe {item} {LAB}\{item}.jsonl" start= auto'
                for item in (FIRST, SECOND)
            ),
            rf"reg.exe add {SERVICES}\{SECOND} /v DependOnService /t REG_MULTI_SZ /d {FIRST} /f /reg:64",
        )

    async def leave(self) -> None:
        """Take away what `prepare` made."""
        lines = [f"rmdir /s /q {BASE}", f"reg.exe delete {LEDGER} /f /reg:64"]
        if self._made:
            lines += [f"sc.exe stop {item}" for item in (SECOND, FIRST)] + [f"sc.exe delete {item}" for item in (SECOND, FIRST)]
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
        return parse_state(await self._run(f"sc.exe query {service}"))

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
        self._wire.asked.clear()

    def requests(self) -> list[str]:
        return list(self._wire.asked)

    # ---- what goes wrong ---------------------------------------------------------------------------------------------

    def fail(self, at: int, when: Literal["before", "after"] = "before", action: Literal["cut", "hang"] = "cut") -> None:
        self._wire.order(at, when, action)

    async def cut_in_restarts(self, at: int) -> None:
        while not await self._exists(rf"{BASE}\lock\job"):
            await asyncio.sleep(0.02)
        self._wire.cut()

    def sample(self, requests: Sequence[str]) -> Sequence[int]:
        # a pass takes seconds here; the simulated host stands for the others
        return [number for number, request in enumerate(requests, 1) if request.startswith("exec")]

    def came(self) -> bool:
        return self._wire.disarm()

    # ---- SSH ---------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[asyncssh.SSHClientConnection]:
        key = asyncssh.import_private_key(self.access.keys[0].reveal())
        place = {"port": self.access.port, "username": self.access.username}
        async with asyncssh.connect(
            self.access.address, client_keys=[key], known_hosts=None, config=None, **place
        ) as connection:  # type: ignore[arg-type]
            self._wire.aside.add(connection)
            yield connection

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


def parse_state(printed: str) -> str:
    """Return the state in what `sc query` prints: the number on the third line, whose words are in the host's language."""
    lines = [line for line in printed.splitlines() if line.strip()]
    number = lines[2].partition(":")[2].split()[:1] if len(lines) > 3 and ":" in lines[2] else []
    return ServiceState(int(number[0])).name if number and number[0].isdigit() else ""


def _path(windows: str) -> str:
    return windows.replace("\\", "/")


def _apart(work: Coroutine[Any, Any, _T]) -> _T:
    """The result of something that waits, for who cannot."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


class _Wire:
    """What the SSH library asks of the host for Transom, written down, and what happens to one of these requests by order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.aside: WeakSet[asyncssh.SSHClientConnection] = WeakSet()
        """Connections of the tests themselves."""
        self._ordered: tuple[int, str, str] | None = None
        self._came = False
        self._count = 0
        self._latest: asyncssh.SSHClientConnection | None = None
        session, request = asyncssh.SSHClientConnection.create_session, asyncssh.sftp.SFTPClientHandler._make_request

        async def create_session(connection: Any, factory: Any, command: Any = (), **options: Any) -> Any:
            names = ["channel", f"exec {command}"] if command else ["channel"]
            return await self._passes(connection, names, lambda: session(connection, factory, command, **options))

        async def make_request(handler: Any, kind: Any, *content: Any) -> Any:
            connection = handler._writer.channel.get_connection()
            return await self._passes(connection, [_KINDS.get(kind, str(kind))], lambda: request(handler, kind, *content))

        patch.setattr(asyncssh.SSHClientConnection, "create_session", create_session)
        patch.setattr(asyncssh.sftp.SFTPClientHandler, "_make_request", make_request)

    def order(self, at: int, when: str, action: str) -> None:
        self._ordered, self._came, self._count = (at, when, action), False, 0

    def disarm(self) -> bool:
        """Whether what was ordered has happened."""
        self._ordered = None
        return self._came

    def cut(self) -> None:
        """End the connection of the pass that goes on."""
        assert self._latest is not None
        self._latest.abort()
        self._came = True

    async def _passes(self, connection: Any, names: list[str], request: Callable[[], Awaitable[_T]]) -> _T:
        if connection in self.aside:
            return await request()
        numbers = range(self._count + 1, self._count + len(names) + 1)
        self._count, self._latest = numbers[-1], connection
        self.asked += names
        at, when, action = self._ordered or (0, "", "")
        if at not in numbers:
            return await request()
        self._ordered, self._came = None, True
        if when == "after":
            await request()
        if action == "hang":
            await asyncio.Event().wait()
        connection.abort()
        raise asyncssh.ConnectionLost("cut by order")
