"""What one SFTP request of OpenSSH for Windows carries; the same for every bench."""

import asyncssh
import pytest

from winsim.sftp_limits import BUFFER, MESSAGE


async def carried(sftp: asyncssh.SFTPClient, path: str, data: bytes, most: int) -> None:
    """Requests of 16 KiB, and of what is taken at most (KiB): all arrives, and comes back; one read gives 100 KiB at most."""
    for size in {16 * 1024, most * 1024}:
        async with sftp.open(path, "wb", block_size=size) as file:
            await file.write(data)
        async with sftp.open(path, "rb", block_size=size) as file:
            assert await file.read() == data
    async with sftp.open(path, "rb", block_size=0) as file:
        assert await file.read(255 * 1024) == data[:BUFFER]


async def too_long(sftp: asyncssh.SFTPClient, path: str) -> None:
    """A message of more than 256 KiB ends the server of the channel."""
    file = await sftp.open(path, "wb", block_size=0)
    with pytest.raises((asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection)):
        await file.write(bytes(MESSAGE))
