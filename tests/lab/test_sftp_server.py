"""SFTP shows drive C as OpenSSH for Windows does."""

import asyncssh
import pytest
from lab.machine import Machine
from tests.lab.client import connect
from tests.winsim.transfers import carried, too_long

pytestmark = pytest.mark.lab
BASE = "C:/ProgramData/test"


async def put(sftp: asyncssh.SFTPClient, path: str, text: str) -> None:
    async with sftp.open(path, "w") as file:
        await file.write(text)


async def test_paths_have_a_drive_a_slash_or_none_and_any_case(machine: Machine) -> None:
    async with connect(machine) as connection, connection.start_sftp_client() as sftp:
        await sftp.mkdir(BASE)
        await put(sftp, f"{BASE}/a.txt", "one")
        assert await sftp.exists("/C:/programdata/TEST/A.TXT")
        assert await sftp.realpath(".") == "/C:/Users/Administrator"
        assert await sftp.realpath("c:/Windows/../ProgramData") == "/C:/ProgramData"
        assert (machine.find_path(r"C:\programdata\test\a.txt")).read_text() == "one"
        assert not await sftp.exists("D:/")
        assert not await sftp.exists("C:/../../etc/passwd")
        assert not await sftp.exists("/etc/passwd")


async def test_rename_makes_no_room_for_itself_and_posix_rename_does(machine: Machine) -> None:
    async with connect(machine) as connection, connection.start_sftp_client() as sftp:
        await sftp.mkdir(BASE)
        await put(sftp, f"{BASE}/old", "old")
        await put(sftp, f"{BASE}/new", "new")
        with pytest.raises(asyncssh.SFTPFailure):
            await sftp.rename(f"{BASE}/new", f"{BASE}/old")
        assert sorted(name for name in await sftp.listdir(BASE) if not name.startswith(".")) == ["new", "old"]
        await sftp.posix_rename(f"{BASE}/new", f"{BASE}/old")
        async with sftp.open(f"{BASE}/old") as file:
            assert await file.read() == "new"
        await sftp.rename(f"{BASE}/old", f"{BASE}/third")
        assert [name for name in await sftp.listdir(BASE) if not name.startswith(".")] == ["third"]


async def test_a_file_that_a_process_has_open_cannot_be_replaced(machine: Machine) -> None:
    async with connect(machine) as connection, connection.start_sftp_client() as sftp:
        await sftp.mkdir(BASE)
        await put(sftp, f"{BASE}/other", "other")
        holder = await connection.create_process(r"cmd.exe /c ping -n 1000 127.0.0.1 > C:\ProgramData\test\held.txt")
        while not (machine.find_path(r"C:\ProgramData\test\held.txt")).exists():
            pass
        with pytest.raises(asyncssh.SFTPFailure):
            await put(sftp, f"{BASE}/held.txt", "mine")
        with pytest.raises(asyncssh.SFTPFailure):
            await sftp.remove(f"{BASE}/HELD.TXT")
        for rename in (sftp.rename, sftp.posix_rename):
            with pytest.raises(asyncssh.SFTPFailure):
                await rename(f"{BASE}/other", f"{BASE}/held.txt")
            with pytest.raises(asyncssh.SFTPFailure):
                await rename(f"{BASE}/held.txt", f"{BASE}/aside")
            with pytest.raises(asyncssh.SFTPFailure):
                await rename(BASE, "C:/ProgramData/aside")
        assert not await sftp.exists(f"{BASE}/aside")
        holder.close()
        await holder.wait_closed()
        await connection.run("cmd.exe /d /c ver")


async def test_a_running_program_can_be_renamed_aside_and_nothing_else(machine: Machine) -> None:
    program, aside = "C:/lab/recorder.exe", "C:/lab/recorder.old.exe"
    async with connect(machine) as connection, connection.start_sftp_client() as sftp:
        with pytest.raises(asyncssh.SFTPFailure):
            await sftp.remove(program)
        with pytest.raises(asyncssh.SFTPFailure):
            await put(sftp, program, "MZ")
        with pytest.raises(asyncssh.SFTPFailure):
            await sftp.rename(program, aside)
        await sftp.posix_rename(program, aside)
        with pytest.raises(asyncssh.SFTPFailure):
            await sftp.remove(aside)
    for service in ("recorder-a", "recorder-b"):
        machine.stop(service)
    async with connect(machine) as connection, connection.start_sftp_client() as sftp:
        await sftp.remove(aside)


async def test_a_script_that_runs_can_be_replaced(machine: Machine) -> None:
    async with connect(machine) as connection, connection.start_sftp_client() as sftp:
        await sftp.mkdir(BASE)
        await put(sftp, f"{BASE}/job.cmd", "@echo on> C:\\ProgramData\\test\\on\r\n@ping -n 1000 127.0.0.1 > nul\r\n")
        await connection.create_process(r"cmd.exe /d /c C:\ProgramData\test\job.cmd")
        while not (machine.find_path(r"C:\ProgramData\test\on")).exists():
            pass
        await put(sftp, f"{BASE}/job.cmd", "@rem")


async def test_a_time_lasts_only_if_it_is_set_after_the_close(machine: Machine) -> None:
    """[MS-FSA] 2.1.4.17; PowerShell/Win32-OpenSSH#461."""
    times, file = asyncssh.SFTPAttrs(atime=1577836800, mtime=1577836800), f"{BASE}/f"
    async with connect(machine) as connection, connection.start_sftp_client() as sftp:
        await sftp.mkdir(BASE)
        async with sftp.open(file, "w") as opened:
            await opened.write("a")
            await opened.setstat(times)
        assert (await sftp.stat(file)).mtime != times.mtime
        await sftp.setstat(file, times)
        assert (await sftp.stat(file)).mtime == times.mtime


async def test_a_virus_scanner_reads_what_was_written(machine: Machine) -> None:
    times, file = asyncssh.SFTPAttrs(atime=1577836800, mtime=1577836800), f"{BASE}/f"
    async with connect(machine) as connection, connection.start_sftp_client() as sftp:
        await sftp.mkdir(BASE)
        machine.ssh.scan(3600)
        await put(sftp, file, "a")
        for request in (
            sftp.remove(file),
            sftp.rename(file, f"{BASE}/g"),
            sftp.setstat(file, times),
            sftp.rename(BASE, "C:/ProgramData/aside"),
        ):
            with pytest.raises(asyncssh.SFTPFailure):
                await request
        async with sftp.open(file) as opened:
            assert await opened.read() == "a"
        machine.ssh.scan(0)
        await put(sftp, f"{BASE}/g", "a")
        await sftp.remove(f"{BASE}/g")


async def test_a_request_carries_255_kib_and_no_more(machine: Machine) -> None:
    async with connect(machine) as connection, connection.start_sftp_client() as sftp:
        assert (sftp.limits.max_read_len, sftp.limits.max_write_len) == (255 * 1024, 255 * 1024)
        await sftp.mkdir(BASE)
        await carried(sftp, f"{BASE}/f", bytes(range(256)) * 2048, 255)
        await too_long(sftp, f"{BASE}/f")
