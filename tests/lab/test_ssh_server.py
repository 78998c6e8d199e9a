"""The SSH server behaves as the one of Windows does."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import asyncssh
import pytest
from lab.machine import Machine
from lab.network import Network
from lab.sshd.journal import sum_traffic
from tests.lab.client import connect
from tests.support.repository import ROOT
from tests.support.waiting import until

from lab import wine

pytestmark = pytest.mark.lab


async def test_a_command_is_run_by_cmd(machine: Machine) -> None:
    async with connect(machine) as connection:
        plain = await connection.run(r"cmd.exe /d /c exit 7")
        quoted = await connection.run('echo "a  b" &set SSH_CONNECTION&echo %OS%>&2&exit 3')
    assert plain.exit_status == 7
    assert isinstance(quoted.stdout, str)
    assert quoted.stdout.startswith('"a  b"')
    assert "SSH_CONNECTION=" in quoted.stdout
    assert (quoted.stderr, quoted.exit_status) == ("Windows_NT\r\n", 3)


async def test_standard_input_reaches_the_command(machine: Machine) -> None:
    async with connect(machine) as connection:
        done = await connection.run('find "x"', input="ax\r\nb\r\n")
    assert done.stdout == "ax\r\n"


@pytest.mark.parametrize(("command", "code"), [(r"cmd.exe /d /c ver", 0), (r"cmd.exe /d /c ver & ver", 1), ('echo "x"', 1)])
async def test_powershell_as_the_default_shell(network: Network, command: str, code: int) -> None:
    with Machine(place=network.add_place(), shell="powershell") as machine:
        machine.boot()
        async with connect(machine) as connection:
            assert (await connection.run(command)).exit_status == code


async def test_only_the_key_of_the_administrator_opens(machine: Machine) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    for options in ({"username": "alice"}, {"client_keys": [stranger]}, {"client_keys": None, "password": "hunter2"}):
        with pytest.raises(asyncssh.PermissionDenied):
            async with connect(machine, **options):
                pass


async def test_the_host_key_can_change(machine: Machine) -> None:
    def known() -> object:
        return [asyncssh.import_public_key(machine.ssh.host_key)], [], []

    before = known()
    async with connect(machine, known_hosts=before):
        pass
    machine.ssh.change_host_key()
    machine.ssh.restart()
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        async with connect(machine, known_hosts=before):
            pass
    async with connect(machine, known_hosts=known()):
        pass


async def test_a_dropped_connection_ends_what_it_started_but_no_service(machine: Machine) -> None:
    machine.stop("recorder-a")
    connection = await connect(machine)
    await connection.run("sc start recorder-a")
    await connection.create_process("cmd.exe /d /c ping -n 1000 127.0.0.1")
    await until(lambda: _running(machine, "ping"))
    connection.abort()
    await until(lambda: not _running(machine, "ping"))
    assert machine.read_state("recorder-a") == "RUNNING"
    assert len(machine.list_starts("recorder-a")) == 2


async def test_what_a_command_leaves_behind_ends_with_it(machine: Machine) -> None:
    async with connect(machine) as connection:
        await connection.run('start "" /b ping -n 1000 127.0.0.1 & exit 0')
        assert not _running(machine, "ping")


async def test_a_service_that_runs_a_script_outlives_the_connection(machine: Machine) -> None:
    """How work is detached: a service whose program never talks to the service control manager."""
    (machine.drive / "lab" / "job.cmd").write_bytes(b"@ping -n 3 127.0.0.1 > nul\r\n@echo done> C:\\lab\\job.txt\r\n")
    (machine.drive / "lab" / "hand.cmd").write_bytes(
        b'@sc create job binPath= "cmd.exe /d /c start \\"\\" /b cmd.exe /d /c C:\\lab\\job.cmd"\r\n@sc start job\r\n'
    )
    connection = await connect(machine)
    await connection.run(r"cmd.exe /d /c C:\lab\hand.cmd")
    connection.abort()
    await until((machine.drive / "lab" / "job.txt").exists)


async def test_connections_channels_requests_and_bytes_are_counted(machine: Machine) -> None:
    async with connect(machine) as connection:
        await connection.run(r"cmd.exe /d /c ver")
        async with connection.start_sftp_client() as sftp, sftp.open("C:/ProgramData/x.txt", "wb") as file:
            await file.write(b"x" * 10_000)
    entries = [entry for entry in machine.ssh.read_entries() if entry.event == "login"]
    await until(
        lambda: any(e.event == "disconnect" and e.connection == entries[0].connection for e in machine.ssh.read_entries())
    )
    seen = sum_traffic(machine.ssh.read_entries())
    assert (seen.connections, seen.channels, seen.execs, seen.sftp_sessions) == (1, 2, 1, 1)
    assert seen.commands == (r"cmd.exe /d /c ver",)
    assert seen.sftp_requests == 3
    assert seen.received > 10_000
    assert seen.sent > 1_000


async def test_a_host_can_hang(machine: Machine) -> None:
    async with connect(machine) as connection:
        machine.ssh.suspend()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.run("cmd.exe /d /c ver"), 0.5)
        machine.ssh.resume()
        assert (await connection.run("cmd.exe /d /c ver")).exit_status == 0


async def test_a_machine_ends_with_the_process_that_operates_it() -> None:
    operator = subprocess.Popen(
        [sys.executable, "-m", "lab.run"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert operator.stdout is not None
    lines = {}
    while "journal" not in lines:
        name, _, value = operator.stdout.readline().strip().partition("   ")
        lines[name] = value.strip()
    prefix = Path(lines["drive C"]).parent
    assert wine.list_processes(prefix)
    operator.send_signal(signal.SIGKILL)
    operator.wait()
    await until(lambda: not wine.list_processes(prefix))


def _running(machine: Machine, program: str) -> bool:
    found = [Path(f"/proc/{pid}/cmdline") for pid in wine.list_processes(machine.prefix)]
    return any(program.encode() in file.read_bytes() for file in found if file.exists())
