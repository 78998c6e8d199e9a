"""Files on their way: how much one request carries (what servers of Windows take, and say that they take), and a lost way."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from asyncssh.packet import SSHPacket
from asyncssh.sftp import SFTPLimits, SFTPServerHandler
from tests.hosts.egress import settings
from tests.hosts.simulated import SimulatedHost
from tests.support.waiting import until

from transom.hosts.errors import ConnectionLost
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.ssh.transport import open_ssh
from winsim import Simulator, sftp_limits
from winsim.sftp import Sftp

CONTENT = bytes(range(251)) * 4000
LIMITS = b"limits@openssh.com"
TOLD = 255 * 1024
"""Since OpenSSH 8.5: SFTP_MAX_MSG_LENGTH less 1024 (sftp-server.c, process_extended_limits)."""
SAFE = 32 * 1024
"""What every server takes (draft-ietf-secsh-filexfer-02, 3); those of Server 2019 and 2022, 7.7 and 8.1, say nothing."""


async def chunks() -> AsyncIterator[bytes]:
    for start in range(0, len(CONTENT), 2**18):
        yield CONTENT[start : start + 2**18]


@pytest.mark.parametrize(("told", "largest"), [(True, TOLD), (False, SAFE)])
async def test_no_request_carries_more_than_the_server_takes(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch, told: bool, largest: int
) -> None:
    async def limits(handler: SFTPServerHandler, packet: SSHPacket) -> SFTPLimits:
        packet.check_end()
        return SFTPLimits(256 * 1024, largest, largest, 0)

    monkeypatch.setitem(SFTPServerHandler._packet_handlers, LIMITS, limits)
    if not told:
        extensions = [extension for extension in sftp_limits._EXTENSIONS if extension[0] != LIMITS]
        monkeypatch.setattr(sftp_limits, "_EXTENSIONS", extensions)
    sizes: list[int] = []
    write, read = Sftp.write, Sftp.read

    async def written(self: Sftp, file: object, offset: int, data: bytes) -> int:
        sizes.append(len(data))
        return await write(self, file, offset, data)

    async def got(self: Sftp, file: object, offset: int, size: int) -> bytes:
        sizes.append(size)
        return await read(self, file, offset, size)

    monkeypatch.setattr(Sftp, "write", written)
    monkeypatch.setattr(Sftp, "read", got)

    host = SimulatedHost(simulator, await simulator.add_host())
    async with open_ssh(host.access, NoHostKeys(), settings().timeouts) as transport:
        await transport.send("C:/sent.bin", chunks(), 0, 1_600_000_000)
        await transport.create("C:/created.bin", CONTENT)
        assert await transport.read("C:/sent.bin", len(CONTENT) + 1) == CONTENT
        assert await transport.read("C:/created.bin", len(CONTENT) + 1) == CONTENT
    assert sizes and max(sizes) <= largest


async def test_nothing_is_left_of_a_file_that_was_being_sent(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    under_way: list[int] = []

    async def never(self: Sftp, file: object, offset: int, data: bytes) -> int:
        under_way.append(offset)
        return await asyncio.Event().wait()

    monkeypatch.setattr(Sftp, "write", never)
    host = SimulatedHost(simulator, await simulator.add_host())
    async with open_ssh(host.access, NoHostKeys(), settings().timeouts) as transport:
        sending = asyncio.create_task(transport.send("C:/sent.bin", chunks(), 0, 1_600_000_000))
        await until(lambda: under_way)
        sending.cancel()
        transport._connection.abort()
        with suppress(asyncio.CancelledError, ConnectionLost):
            await sending
    gc.collect()
    assert "never retrieved" not in caplog.text
