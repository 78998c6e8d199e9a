"""Hosts whose answers are made up: the simulated host, which stays honest in all that a lie does not speak of."""

import asyncio
import contextlib
import random
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Literal

import asyncssh

from transom.hosts.steps.facts_parser import GatheredFacts
from transom.windows.host.queries import LEDGER
from transom.windows.registry import reg
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_dword, build_sz
from winsim import Host, Simulator
from winsim.filesystem import Handle, SimulatedFile
from winsim.server import ServerConnection
from winsim.sftp import Sftp
from winsim.sftp_limits import Limits

_TOLD = re.compile(rb"transom-gather: (\S+) ([0-9]+)")
_BASE = r"C:\Windows\Transom"
_SEED = 20261122


@dataclass(frozen=True)
class Lie:
    """What is made up of a host's answers."""

    gathered: Callable[[bytes], bytes] | None = None
    """The file of answers, from the honest one."""
    size: bytes | None = None
    """What the script says of that file's size."""
    read: Callable[[bytes, int], bytes] | None = None
    """An SFTP read, from the honest answer and the bytes asked for; `of` the file of that name, empty: of any."""
    of: str = ""
    stream: bytes | None = None
    """All that the SFTP subsystem says."""
    speech: bytes | None = None
    """What each script says first."""
    listing: Literal["endless", "empty"] | None = None
    delay: float = 0.0
    """Seconds before each answer to a request about files."""
    silent: bool = False
    """Whether no script ever ends."""
    stat: int | None = None
    """The size of every file and directory."""


def with_part(gathered: bytes, name: str, content: bytes) -> bytes:
    """A file of answers with another answer in the place of one, or of its absence."""
    held = GatheredFacts.from_bytes(gathered)
    stem = name.partition(".")[0]
    parts = {**{part: data for part, data in held.parts.items() if part != f"{stem}.err"}, name: content}
    lines = [*(f"missing {item}" for item in held.missing - {stem}), *(f"absent {item}" for item in held.absent)]
    lines += [f"part {part} {len(data)}" for part, data in parts.items()]
    return "".join(f"{line}\r\n" for line in (*lines, "end")).encode() + b"".join(parts.values())


def exported(body: str) -> bytes:
    return ("\ufeff" + reg.HEADER + "\r\n\r\n" + body).encode("utf-16-le", "surrogatepass")


def junk(size: int) -> bytes:
    return random.Random(_SEED).randbytes(size)


def _ledger(**values: str) -> Callable[[bytes], bytes]:
    edits = [
        SetValue(LEDGER, "Version", build_dword(1)),
        *(SetValue(LEDGER, name, build_sz(text)) for name, text in values.items()),
    ]
    return lambda honest: with_part(honest, "ledger.reg", reg.render(edits))


def _named(size: int) -> Callable[[bytes], bytes]:
    """As many entries of the ledger as fit, each well-formed."""
    one = f'[{LEDGER}\\Environment\\Machine]\r\n"Version"=dword:1\r\n'
    lines = "".join(f'"N{number}"="{{\\"set\\":\\"x\\"}}"\r\n' for number in range(size // 52))
    return lambda honest: with_part(honest, "ledger.reg", exported(f'[{LEDGER}]\r\n"Version"=dword:1\r\n{one}{lines}'))


_DELETIONS = exported("[-K]\r\n" * (2**20 // 12))
_ITEMS = exported(
    f"[{LEDGER}]\r\n" + '"Version"=dword:00000001\r\n' + f"[{LEDGER}\\Environment\\Services\\containerd]\r\n@="
    '"{\\"value\\":{\\"name\\":\\"E\\",\\"type\\":7,\\"data\\":\\"zz\\"}}"\r\n'
)
LIES = {
    "1 MB of deletions": Lie(lambda honest: with_part(honest, "ledger.reg", _DELETIONS)),
    "64 MB": Lie(lambda honest: with_part(honest, "ledger.reg", bytes(64 * 2**20))),
    "8 MB of hex": Lie(lambda honest: with_part(honest, "ledger.reg", exported('[K]\r\n"a"=hex:' + "00," * 1_300_000 + "00"))),
    "an open quote of 7 MB": Lie(lambda honest: with_part(honest, "ledger.reg", exported('[K]\r\n"a"="' + "\\\\" * 1_700_000))),
    "more keys than a ledger": Lie(_named(2**20)),
    "ten times what was asked": Lie(read=lambda _, size: junk(10 * size)),
    "ten times the answers": Lie(read=lambda honest, _: 10 * honest, of="gathered"),
    "a byte more than the answers": Lie(read=lambda honest, _: honest + b"x", of="gathered"),
    "half of the answers": Lie(read=lambda honest, _: honest[: len(honest) // 2], of="gathered"),
    "5,000 digits": Lie(size=b"1" * 5000),
    "5,000 digits in the index": Lie(lambda honest: honest.replace(b"part version.txt ", b"part version.txt " + b"9" * 5000)),
    "nested JSON in the ledger": Lie(_ledger(WinHTTP="[" * 100_000)),
    "a number of 5,000 digits in the ledger": Lie(_ledger(WinHTTP='{"set":"","was":{"name":"","type":' + "1" * 5000 + "}}")),
    "no hex in the ledger": Lie(lambda honest: with_part(honest, "ledger.reg", _ITEMS)),
    "keys in each other": Lie(
        lambda honest: with_part(honest, "ledger.reg", exported(f"[{LEDGER}" + "\\K" * 900_000 + "]\r\n"))
    ),
    "a list of a million strings": Lie(
        lambda honest: with_part(
            honest, "ledger.reg", exported(f'[{LEDGER}]\r\n"a"=hex(7):' + "61,00,00,00," * 330_000 + "00\r\n")
        )
    ),
    "a size below zero": Lie(size=b"-1"),
    "nothing": Lie(silent=True),
    "slowly": Lie(delay=4),
    "junk as a file": Lie(lambda honest: junk(len(honest))),
    "junk in blocks": Lie(read=lambda honest, _: junk(len(honest))),
    "junk as SFTP": Lie(stream=junk(4096)),
    "an SFTP packet of 4 MB": Lie(stream=(4 * 2**20).to_bytes(4, "big") + bytes(2**20)),
    "another version of SFTP": Lie(stream=b"\0\0\0\x05\x02\0\0\0\x06" + junk(300)),
    "scripts that say 4 MB": Lie(speech=b"transom \xff\r\n" * 400_000),
    "a directory without end": Lie(listing="endless", speech=b"transom-left: p-00000000-00\r\n"),
    "a directory of nothing": Lie(listing="empty"),
    "sizes beyond a disk": Lie(stat=2**63),
}
"""Each of them is tried with every command. `nothing` and `slowly` last as long as a pass may."""


class HostileSimulator(Simulator):
    """Simulated hosts, some of which lie."""

    def __init__(self) -> None:
        super().__init__()
        self.lies: dict[Host, Lie] = {}

    def create_connection(self) -> ServerConnection:
        """One that lies where the host does."""
        return _Connection(self)

    async def add_liar(self, lie: Lie, name: str | None = None, **options: Any) -> Host:
        """A host that lies from its first connection on."""
        host = await self.add_host(name, **options)
        self.lies[host] = lie
        return host


class _Connection(ServerConnection):
    def __init__(self, simulator: HostileSimulator) -> None:
        super().__init__(simulator)
        self._lies = simulator.lies

    @property
    def lie(self) -> Lie:
        return self._lies.get(self.host, Lie())

    async def start_sftp(self, channel: "asyncssh.SSHServerChannel[bytes]") -> Sftp:
        honest = await super().start_sftp(channel)
        if self.lie.stream is not None:
            channel.write(self.lie.stream)
            await self._lost.wait()
        return (
            _Sftp(channel, self.host.files, self, rf"C:\Users\{self.host.username}", self.lie) if self.lie != Lie() else honest
        )

    async def run(self, process: "asyncssh.SSHServerProcess[bytes]") -> None:
        if self.lie.speech is not None:
            process.stdout.write(self.lie.speech)
        if self.lie.silent:
            await self._lost.wait()
        told: Any = _Process(process, self._told)
        await super().run(told)

    def _told(self, data: bytes) -> bytes:
        found = _TOLD.search(data)
        if found is None:
            return data
        node = self.host.files.find(rf"{_BASE}\{found[1].decode()}\gathered")
        assert isinstance(node, SimulatedFile)
        if self.lie.gathered is not None:
            node.data = bytearray(self.lie.gathered(bytes(node.data)))
        size = self.lie.size if self.lie.size is not None else b"%d" % len(node.data)
        return data[: found.start(2)] + size + data[found.end(2) :]


class _Process:
    """A process whose standard output passes through somebody's hands."""

    def __init__(self, process: "asyncssh.SSHServerProcess[bytes]", told: Callable[[bytes], bytes]) -> None:
        self._process, self._told = process, told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)

    @property
    def stdout(self) -> "_Process":
        return self

    def write(self, data: bytes) -> None:
        self._process.stdout.write(self._told(data))


class _Sftp(Sftp):
    def __init__(self, channel: Any, files: Any, requests: Any, home: str, lie: Lie) -> None:
        super().__init__(channel, files, requests, home, Limits())
        self._lie = lie

    async def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        await asyncio.sleep(self._lie.delay)
        return await super().open(path, pflags, attrs)

    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        honest = await super().read(file_obj, offset, size)
        assert isinstance(file_obj, Handle)
        lies = self._lie.read is not None and self._lie.of in ("", file_obj.file.name)
        return self._lie.read(honest, size) if lies and self._lie.read is not None else honest

    async def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        found = await super().stat(path)
        if self._lie.stat is not None:
            found.size = self._lie.stat
        return found

    async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
        number = 0
        while self._lie.listing == "endless":
            number += 1
            yield asyncssh.SFTPName(b"g-00000000-%x" % number, attrs=asyncssh.SFTPAttrs(size=1))
        if self._lie.listing is None:
            async for name in super().scandir(path):
                yield name


GREETINGS = {
    "a version that is no ASCII": b"SSH-2.0-OpenSSH_\xff\xfe\r\n",
    "a line before it that is no ASCII": b"\xff\xfe welcome\r\nSSH-2.0-OpenSSH_9.5\r\n" + junk(4096),
    "a version without end": b"SSH-2.0-" + b"x" * 100_000,
    "lines without end": b"welcome\r\n" * 100_000,
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "junk": junk(65536),
    "a disconnect whose text is no UTF-8": b"SSH-2.0-x\r\n\0\0\0\x1c\x04\x01\0\0\0\x02\0\0\0\x02\xff\xfe\0\0\0\x02\xff\xfe"
    + bytes(20),
    "nothing": b"",
}
"""What is said to whoever connects."""


@contextlib.asynccontextmanager
async def greeting(said: bytes) -> AsyncIterator[int]:
    """The port of a server that says this, and no more; it ends with the block."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(said)
            await writer.drain()
            if said:
                await asyncio.sleep(0.2)
                writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
