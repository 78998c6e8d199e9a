"""Ordered faults happen at the request they were ordered for, before or after its effect."""

import asyncio
from typing import Literal

import asyncssh
import pytest
from lab.machine import Machine
from lab.sshd.fault import Fault
from tests.lab.client import connect
from tests.support.waiting import until

from lab import wine

pytestmark = pytest.mark.lab
LOST = (asyncssh.ConnectionLost, asyncssh.SFTPConnectionLost, asyncssh.ChannelOpenError, BrokenPipeError, ConnectionResetError)


async def make_directory(machine: Machine) -> None:
    """Requests 1 (channel), 2 (SFTP) and 3 (mkdir) of a connection."""
    async with connect(machine) as connection, connection.start_sftp_client() as sftp:
        await sftp.mkdir("C:/made")


@pytest.mark.parametrize(
    ("at", "when", "made"), [(1, "before", False), (2, "after", False), (3, "before", False), (3, "after", True)]
)
async def test_a_connection_is_cut_once(machine: Machine, at: int, when: Literal["before", "after"], made: bool) -> None:
    machine.ssh.schedule_fault(Fault(at, when))
    with pytest.raises(LOST):
        await make_directory(machine)
    assert (machine.drive / "made").exists() == made
    assert not machine.ssh.armed
    if not made:
        await make_directory(machine)
        assert (machine.drive / "made").exists()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_request_can_stay_without_answer(machine: Machine, when: Literal["before", "after"]) -> None:
    machine.ssh.schedule_fault(Fault(3, when, "hang"))
    connection = await connect(machine)
    sftp = await connection.start_sftp_client()
    asked = asyncio.create_task(sftp.mkdir("C:/made"))
    await until(lambda: not machine.ssh.armed)
    if when == "after":
        await until((machine.drive / "made").exists)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asked, 1)
    connection.abort()
    assert (machine.drive / "made").exists() == (when == "after")


@pytest.mark.parametrize(("when", "marks"), [("before", []), ("during", ["begun"]), ("after", ["begun", "done"])])
async def test_a_command_is_cut(machine: Machine, when: Literal["before", "during", "after"], marks: list[str]) -> None:
    (machine.drive / "lab" / "slow.cmd").write_bytes(
        b"@echo x> C:\\lab\\begun\r\n@ping -n 9 127.0.0.1 > nul\r\n@echo x> C:\\lab\\done\r\n"
    )
    machine.ssh.schedule_fault(Fault(2, when, seconds=4))
    async with connect(machine) as connection:
        done = await connection.run(r"cmd.exe /d /c C:\lab\slow.cmd")
    assert done.exit_status is None  # how asyncssh says that no exit status came
    # what goes on writes its second mark, and ends
    await until(lambda: not {"cmd.exe", "ping.exe"} & set(wine.list_running(machine.prefix)))
    assert sorted(file.name for file in (machine.drive / "lab").iterdir() if file.name in {"begun", "done"}) == marks


async def test_a_fault_that_was_not_reached_can_be_taken_back(machine: Machine) -> None:
    machine.ssh.schedule_fault(Fault(100))
    await make_directory(machine)
    assert machine.ssh.armed
    machine.ssh.cancel_fault()
    assert not machine.ssh.armed
