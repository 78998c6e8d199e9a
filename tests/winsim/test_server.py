"""The SSH side of a simulated host: who gets in, what SFTP refuses, what ends with a connection, and injected faults."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncssh
import pytest
from tests.support.waiting import until
from tests.winsim.transfers import carried, too_long

from winsim import Fault, Host, Simulator
from winsim.editions import SERVER_2019, SERVER_2022, Edition

FILE = "C:/ProgramData/f"


@pytest.fixture
async def host(simulator: Simulator) -> Host:
    return await simulator.add_host()


@asynccontextmanager
async def connected(simulator: Simulator, host: Host, **options: object) -> AsyncIterator[asyncssh.SSHClientConnection]:
    given = {"username": host.username, "client_keys": [simulator.client_key], "known_hosts": None, "config": None} | options
    async with asyncssh.connect(host.address, host.port, **given) as connection:  # type: ignore[arg-type]
        yield connection


async def finished(connection: asyncssh.SSHClientConnection, command: str) -> None:
    """Runs a command to its end; a connection that ends before is an error."""
    if (await connection.run(command)).exit_status is None:
        raise asyncssh.ConnectionLost("the command did not end")


@pytest.mark.parametrize(
    "options",
    [
        {"username": "guest"},
        {"client_keys": [asyncssh.generate_private_key("ssh-ed25519")]},
        {"client_keys": None, "agent_path": None, "password": "hunter2"},
    ],
    ids=["another user", "another key", "a password"],
)
async def test_nobody_else_gets_in(simulator: Simulator, host: Host, options: dict[str, object]) -> None:
    with pytest.raises(asyncssh.PermissionDenied):
        async with connected(simulator, host, **options):
            pass


async def test_a_command_and_its_two_outputs(simulator: Simulator, host: Host) -> None:
    async with connected(simulator, host) as connection:
        done = await connection.run("echo out& echo err 1>&2 & exit 3")
    assert (done.stdout, done.stderr, done.exit_status) == ("out\r\n", "err \r\n", 3)
    assert host.traffic.commands == ["echo out& echo err 1>&2 & exit 3"]
    assert (host.traffic.connections, host.traffic.channels, host.traffic.execs) == (1, 1, 1)


async def test_powershell_takes_only_what_it_reads_as_cmd_does(simulator: Simulator) -> None:
    host = await simulator.add_host(shell="powershell")
    host.files.write(r"C:\t\s.cmd", b"@echo a\r\n@exit /b 7\r\n")
    async with connected(simulator, host) as connection:
        done = await connection.run(r"cmd.exe /d /c C:\t\s.cmd")
        refused = await connection.run(r'"C:\t\s.cmd"')
    # PowerShell tells zero from not zero alone
    assert (done.stdout, done.exit_status) == ("a\r\n", 1)
    assert (refused.stdout, refused.exit_status) == ("", 1)


async def test_files(simulator: Simulator, host: Host) -> None:
    data = bytes(range(256)) * 400
    async with connected(simulator, host) as connection, connection.start_sftp_client() as sftp:
        async with sftp.open(FILE, "wb") as file:
            await file.write(data)
        async with sftp.open("/c:/programdata/F", "rb") as file:
            assert await file.read() == data
        assert (await sftp.stat(FILE)).size == len(data)
        assert host.files.read(r"C:\ProgramData\f") == data
        with pytest.raises(asyncssh.SFTPFailure):
            await sftp.open(FILE, asyncssh.FXF_WRITE | asyncssh.FXF_CREAT | asyncssh.FXF_EXCL)
        await sftp.mkdir("C:/ProgramData/d")
        with pytest.raises(asyncssh.SFTPFailure):
            await sftp.mkdir("C:/ProgramData/D")
        await sftp.rename(FILE, "C:/ProgramData/d/g")
        assert sorted(map(str, await sftp.listdir("C:/ProgramData/d"))) == [".", "..", "g"]
        with pytest.raises(asyncssh.SFTPFailure):
            await sftp.rmdir("C:/ProgramData/d")
        for missing in (sftp.stat(FILE), sftp.open(FILE, "rb"), sftp.remove(FILE), sftp.open("C:/none/f", "wb")):
            with pytest.raises(asyncssh.SFTPNoSuchFile):
                await missing
        assert await sftp.realpath(".") == "/C:/Users/Administrator"
    assert host.traffic.sftp_sessions == 1


@pytest.mark.parametrize(("edition", "most"), [(SERVER_2022, 255), (SERVER_2019, 16)])
async def test_a_request_carries_what_the_version_of_the_server_takes(
    simulator: Simulator, edition: Edition, most: int
) -> None:
    """255 KiB, of which one read gives 100, where the server says so, and 16 else; what is longer is refused."""
    host, data = await simulator.add_host(edition=edition), bytes(range(256)) * 2048
    async with connected(simulator, host) as connection, connection.start_sftp_client() as sftp:
        assert (sftp.limits.max_read_len, sftp.limits.max_write_len) == (most * 1024, most * 1024)
        await carried(sftp, FILE, data, most)
        host.traffic.clear()
        async with sftp.open(FILE, "wb") as file:
            await file.write(data)
        assert sum(request.startswith("write") for request in host.traffic.requests) == -(-len(data) // (most * 1024))
        if most == 16:
            file = await sftp.open(FILE, "wb", block_size=0)
            await file.write(data[: 100 * 1024])
            with pytest.raises(asyncssh.SFTPFailure):
                await file.write(data[: 101 * 1024], 0)
        await too_long(sftp, FILE)


async def test_a_rename_onto_a_file(simulator: Simulator, host: Host) -> None:
    host.files.write(r"C:\a", b"a")
    host.files.write(r"C:\b", b"b")
    async with connected(simulator, host) as connection, connection.start_sftp_client() as sftp:
        with pytest.raises(asyncssh.SFTPFailure):
            await sftp.rename("C:/a", "C:/b")
        await sftp.posix_rename("C:/a", "C:/b")
    assert host.files.read(r"C:\b") == b"a"
    assert not host.files.exists(r"C:\a")


async def test_a_file_that_is_open_cannot_be_replaced(simulator: Simulator, host: Host) -> None:
    host.files.write(r"C:\b", b"b")
    host.files.write(r"C:\a", b"a")
    held = host.files.open(r"C:\b")
    async with connected(simulator, host) as connection, connection.start_sftp_client() as sftp:
        for refused in (sftp.open("C:/b", "wb"), sftp.remove("C:/b"), sftp.posix_rename("C:/a", "C:/b")):
            with pytest.raises((asyncssh.SFTPFailure, asyncssh.SFTPPermissionDenied)):
                await refused
        held.close()
        await sftp.posix_rename("C:/a", "C:/b")
    assert host.files.read(r"C:\b") == b"a"


async def test_a_full_disk_takes_nothing_more(simulator: Simulator, host: Host) -> None:
    host.files.write(r"C:\a", b"x" * 10)
    host.files.free = 5
    async with connected(simulator, host) as connection, connection.start_sftp_client() as sftp:
        file = await sftp.open("C:/b", "wb")
        with pytest.raises(asyncssh.SFTPFailure):
            await file.write(b"y" * 6)
        await file.close()
        done = await connection.run(r"echo too much>C:\c")
        assert (done.stderr, done.exit_status) == ("There is not enough space on the disk.\r\n", 1)
        await sftp.remove("C:/a")
        async with sftp.open("C:/b", "wb") as again:
            await again.write(b"y" * 6)
    assert host.files.read(r"C:\b") == b"y" * 6


YEAR_2020 = asyncssh.SFTPAttrs(atime=1577836800, mtime=1577836800)


async def test_a_time_lasts_only_if_it_is_set_after_the_close(simulator: Simulator, host: Host) -> None:
    """[MS-FSA] 2.1.4.17; PowerShell/Win32-OpenSSH#461."""
    async with connected(simulator, host) as connection, connection.start_sftp_client() as sftp:
        file = await sftp.open(FILE, "wb")
        await file.write(b"a")
        await file.setstat(YEAR_2020)
        await file.close()
        assert (await sftp.stat(FILE)).mtime != YEAR_2020.mtime
        await sftp.setstat(FILE, YEAR_2020)
        assert (await sftp.stat(FILE)).mtime == YEAR_2020.mtime
        # who only reads, or opens without writing, changes nothing
        for mode in ("rb", "ab"):
            await (await sftp.open(FILE, mode)).close()
        assert (await sftp.stat(FILE)).mtime == YEAR_2020.mtime


# what an open file of OpenSSH for Windows lets others do: fileio.c, createFile_flags_setup
SHARED = [("rb", "rb", True), ("rb", "wb", False), ("wb", "rb", False), ("wb", "wb", True), ("rb+", "rb", False)]


@pytest.mark.parametrize(("first", "second", "allowed"), SHARED)
async def test_what_is_open_is_shared(simulator: Simulator, host: Host, first: str, second: str, *, allowed: bool) -> None:
    host.files.write(r"C:\ProgramData\f", b"a")
    async with connected(simulator, host) as connection, connection.start_sftp_client() as sftp:
        held = await sftp.open(FILE, first)
        if allowed:
            await (await sftp.open(FILE, second)).close()
        else:
            with pytest.raises(asyncssh.SFTPFailure):
                await sftp.open(FILE, second)
        await held.close()
        await (await sftp.open(FILE, second)).close()


async def test_a_virus_scanner_reads_what_was_written(simulator: Simulator, host: Host) -> None:
    host.scan(3600)
    async with connected(simulator, host) as connection, connection.start_sftp_client() as sftp:
        await sftp.mkdir("C:/d")
        async with sftp.open("C:/d/f", "wb") as file:
            await file.write(b"a")
        refused = (
            sftp.remove("C:/d/f"),
            sftp.rename("C:/d/f", "C:/d/g"),
            sftp.posix_rename("C:/d/f", "C:/d/g"),
            sftp.setstat("C:/d/f", YEAR_2020),
            sftp.rename("C:/d", "C:/e"),
        )
        for request in refused:
            with pytest.raises((asyncssh.SFTPFailure, asyncssh.SFTPPermissionDenied)):
                await request
        assert await connection.run(r"cmd.exe /d /c type C:\d\f", check=True)
        await connection.run(r"cmd.exe /d /c echo b>>C:\d\f", check=True)
        assert host.files.read(r"C:\d\f") == b"ab\r\n"
        host.scan(20)
        # without an await between the two: what is read for a moment is seen, however long this process stands still
        written = host.files.write(r"C:\e\f", b"c")
        assert written.holds == 1
        await until(lambda: written.holds == 0, every=0.01)
        await sftp.rename("C:/e", "C:/g")
        assert host.files.read(r"C:\g\f") == b"c"


async def test_a_slow_disk_answers_in_order(simulator: Simulator, host: Host) -> None:
    host.faults.disk_delay = 0.002
    async with connected(simulator, host) as connection, connection.start_sftp_client() as sftp:
        file = await sftp.open(FILE, "wb", block_size=0)
        await asyncio.gather(*(file.write(str(number).encode(), 0) for number in range(10)))
    assert host.files.read(r"C:\ProgramData\f") == b"9"


async def test_what_a_connection_started_ends_with_it(simulator: Simulator, host: Host) -> None:
    host.time_scale = 0.02
    host.files.write(r"C:\t\s.cmd", b"@ping -n 10 127.0.0.1 >C:\\t\\open\r\n@echo x>C:\\t\\done\r\n")
    async with connected(simulator, host) as connection:
        work = asyncio.create_task(finished(connection, r"cmd.exe /d /c C:\t\s.cmd"))
        await until(lambda: host.files.exists(r"C:\t\open"), every=0.001)
        connection.abort()
        with pytest.raises(asyncssh.ConnectionLost):
            await work
    await host.sleep(15)
    assert not host.files.exists(r"C:\t\done")
    assert host.files.get_file(r"C:\t\open").holds == 0


async def test_what_a_command_left_behind_ends_with_it(simulator: Simulator, host: Host) -> None:
    host.files.write(r"C:\t\s.cmd", b'@start "" /b cmd.exe /d /c "ping -n 5 127.0.0.1 & echo x>C:\\t\\done"\r\n')
    async with connected(simulator, host) as connection:
        await connection.run(r"cmd.exe /d /c C:\t\s.cmd")
    await host.sleep(10)
    assert not host.files.exists(r"C:\t\done")


async def requests_of(simulator: Simulator, host: Host) -> list[str]:
    """A little of everything; gives what was asked, in order."""
    host.traffic.clear()
    async with connected(simulator, host) as connection:
        try:
            sftp = await connection.start_sftp_client()
            await sftp.mkdir("C:/d")
            # by its own request: asyncssh forgets those of a write that is given up, which end as errors that nobody takes
            file = await sftp.open("C:/d/f", "wb", block_size=0)
            await file.write(b"x")
            await file.close()
            await finished(connection, r"cmd.exe /d /c echo a>C:\d\g")
            await sftp.remove("C:/d/f")
        finally:
            # a host that hangs does not answer a farewell either
            connection.abort()
    return list(host.traffic.requests)


async def test_every_request_is_counted(simulator: Simulator, host: Host) -> None:
    assert await requests_of(simulator, host) == [
        "channel", "sftp", "mkdir C:/d", "open C:/d/f", "write f", "close f",
        "channel", r"exec cmd.exe /d /c echo a>C:\d\g", "remove C:/d/f",
    ]  # fmt: skip
    assert (host.traffic.sftp_requests, host.traffic.received, host.traffic.sent) == (5, 28, 0)


AFTER_CUT = [
    (3, "before", []),
    (3, "after", ["d"]),
    (4, "after", ["d", "f"]),
    (5, "before", ["d", "f"]),
    (8, "before", ["d", "f"]),
    (8, "after", ["d", "f", "g"]),
    (9, "before", ["d", "f", "g"]),
    (9, "after", ["d", "g"]),
]


@pytest.mark.parametrize(("at", "when", "left"), AFTER_CUT)
async def test_a_cut_before_or_after_a_request(simulator: Simulator, host: Host, at: int, when: str, left: list[str]) -> None:
    host.faults.schedule_fault(Fault(at, when))  # type: ignore[arg-type]
    with pytest.raises((asyncssh.Error, OSError)):
        await requests_of(simulator, host)
    assert host.faults.ordered is None
    paths = {"d": r"C:\d", "f": r"C:\d\f", "g": r"C:\d\g"}
    assert [name for name, path in paths.items() if host.files.exists(path)] == left
    if "f" in left:
        assert host.files.get_file(r"C:\d\f").holds == 0
    # once: the next connection is well
    await console_runs(simulator, host)


async def console_runs(simulator: Simulator, host: Host) -> None:
    async with connected(simulator, host) as connection:
        assert (await connection.run("echo a")).stdout == "a\r\n"


async def test_a_cut_while_a_command_runs(simulator: Simulator, host: Host) -> None:
    host.files.write(r"C:\t\s.cmd", b"@ping -n 2 x >C:\\t\\1\r\n@ping -n 3 x >C:\\t\\2\r\n@ping -n 2 x >C:\\t\\3\r\n")
    host.faults.schedule_fault(Fault(2, "during", "cut", "-n 3"))
    with pytest.raises((asyncssh.Error, OSError)):
        async with connected(simulator, host) as connection:
            await finished(connection, r"cmd.exe /d /c C:\t\s.cmd")
    await host.sleep(10)
    assert host.files.exists(r"C:\t\2")
    assert not host.files.exists(r"C:\t\3")


@pytest.mark.parametrize("at", [1, 2, 3, 5, 8])
async def test_a_hang_never_answers(simulator: Simulator, host: Host, at: int) -> None:
    host.faults.schedule_fault(Fault(at, action="hang"))
    requests = asyncio.create_task(requests_of(simulator, host))
    await until(lambda: host.faults.ordered is None)
    done, _ = await asyncio.wait({requests}, timeout=0.3)
    assert not done
    requests.cancel()
    await asyncio.wait({requests})
    await console_runs(simulator, host)


async def test_a_host_without_power_and_one_that_refuses(simulator: Simulator, host: Host) -> None:
    async with connected(simulator, host) as connection:
        host.cut_power()
        await connection.wait_closed()
    for down in (True, False):
        with pytest.raises((asyncssh.Error, OSError)):
            async with connected(simulator, host):
                pass
        if down:
            await host.boot()
            host.faults.refuses = True
    host.faults.refuses = False
    await console_runs(simulator, host)


async def test_a_host_key_that_changes(simulator: Simulator, host: Host) -> None:
    first, port = simulator.format_host_key(host), host.port
    async with connected(simulator, host, known_hosts=([first.encode()], [], [])):
        pass
    await simulator.change_host_key(host)
    assert (host.port, simulator.format_host_key(host) != first) == (port, True)
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        async with connected(simulator, host, known_hosts=([first.encode()], [], [])):
            pass
    await console_runs(simulator, host)


async def test_many_hosts_are_told_apart(simulator: Simulator) -> None:
    hosts = [await simulator.add_host() for _ in range(20)]

    async def name(host: Host) -> str:
        async with connected(simulator, host) as connection:
            return str((await connection.run("hostname")).stdout).strip()

    assert await asyncio.gather(*map(name, hosts)) == [host.name for host in hosts]
    assert len({host.port for host in hosts}) == 20
