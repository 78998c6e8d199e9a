"""Hosts whose answers are made up among honest ones, and every command on hosts: the honest ones are done."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.apply.windows import SERVICES, SETTINGS, Answer, Desk, Simulated, Windows
from tests.hosts.hostile import GREETINGS, LIES, HostileSimulator, greeting
from tests.hosts.lying_servers import run_servers

HURRIED = ("--channel-timeout", "8s", "--pass-timeout", "40s")
HONEST = ("win-1", "win-2", "win-3")
UNSEEN = {"a directory of nothing", "sizes beyond a disk"}
SLOW = {"slowly"}
BELOW_SFTP = (
    "slow group",
    "RSA host key of 16,384 bits",
    "X.509 certificates without end",
    "small packets before the exchange",
    "lines without end",
    "exchange of a byte a quarter of a second",
    "keys accepted without end",
    "another key accepted",
    "rekeying without end",
    "rekeying by a slow group",
    "channels opened without end",
    "channel of an odd type",
    "channels refused with 200 kB",
    "requests whose answers are never read",
    "packets of one byte at most",
    "output in single bytes",
    "SFTP with 400,000 extensions",
    "21,000 names at once",
)
"""One of each kind; `tests/hosts/ssh/test_lying_servers.py` has them all."""


class Neighbours:
    """Three honest hosts, the others, and whose lie is behind each name."""

    def __init__(self, desk: Desk, lies: dict[str, str]) -> None:
        self.desk, self.lies = desk, lies


@pytest.fixture
async def neighbours(tmp_path: Path) -> AsyncIterator[Neighbours]:
    async with HostileSimulator() as simulator:
        honest = [Simulated(simulator, await simulator.add_host(name, services=SERVICES)) for name in HONEST]
        told = {name: lie for name, lie in LIES.items() if name not in SLOW}
        liars = [Simulated(simulator, await simulator.add_liar(lie, services=SERVICES)) for lie in told.values()]
        desk = Desk(tmp_path / "desk", *honest, *liars)
        desk.write(SETTINGS)
        yield Neighbours(desk, {f"win-{number}": name for number, name in enumerate(told, 4)})


async def test_apply_diff_and_rollback(neighbours: Neighbours) -> None:
    desk, lies = neighbours.desk, neighbours.lies
    for command in ("diff", "apply", "rollback"):
        answer = await desk.transom(command, "-f", str(desk.manifests), "-o", "json", *HURRIED)
        assert answer.out, answer.err
        rows = {host["name"]: host for host in answer.hosts}
        assert (answer.code, len(rows)) == (3 if command == "diff" else 1, len(lies) + 3), answer.err
        assert [rows[name]["error"] for name in HONEST] == [None] * 3, command
        assert [rows[name]["result"] for name in HONEST] == ["changed"] * 3
        assert [lies[name] for name in lies if rows[name]["error"] is None and lies[name] not in UNSEEN] == []
        assert [lies[name] for name in lies if "fault of Transom" in (rows[name]["error"] or "")] == []
        assert "Traceback" not in answer.err
        assert re.findall(r"hunter2[^@ ]", answer.out + answer.err) == []


async def test_facts(neighbours: Neighbours, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text(neighbours.desk.hosts[0].key)
    key.chmod(0o600)
    at_once = asyncio.Semaphore(8)

    async def asked(host: Windows) -> Answer:
        command = ("facts", host.address, "--port", str(host.port), "-u", host.user, "-i", str(key), "-o", "json", *HURRIED)
        async with at_once:
            return await neighbours.desk.transom(*command)

    answers = await asyncio.gather(*map(asked, neighbours.desk.hosts[3:]))
    for number, answer in enumerate(answers, 4):
        lie = neighbours.lies[f"win-{number}"]
        assert answer.code == (0 if lie in UNSEEN else 1), lie
        assert "Traceback" not in answer.err
        assert "fault of Transom" not in answer.err


@pytest.mark.parametrize("command", ["diff", "apply"])
async def test_greetings_that_are_none(tmp_path: Path, command: str) -> None:
    async with HostileSimulator() as simulator:
        honest = [Simulated(simulator, await simulator.add_host(name, services=SERVICES)) for name in HONEST]
        for item in ("a version that is no ASCII", "a line before it that is no ASCII", "junk"):
            async with greeting(GREETINGS[item]) as port:
                odd = Simulated(simulator, simulator.hosts[0])
                odd.port = port
                desk = Desk(tmp_path / item, *honest, odd)
                desk.write(SETTINGS)
                answer = await desk.transom(command, "-f", str(desk.manifests), "-o", "json", "--connect-timeout", "3s")
                assert [host["error"] for host in answer.hosts[:3]] == [None] * 3
                assert answer.hosts[3]["error"] is not None
                assert (answer.code, "Traceback" in answer.err) == (3 if command == "diff" else 1, False)


async def test_lying_servers(tmp_path: Path) -> None:
    """Below SFTP: the honest hosts are done, and none of them has the blame."""
    async with HostileSimulator() as simulator:
        honest = [Simulated(simulator, await simulator.add_host(name, services=SERVICES)) for name in HONEST]
        with run_servers(*BELOW_SFTP) as ports:
            liars = []
            for port in ports.values():
                liar = Simulated(simulator, simulator.hosts[0])
                liar.port = port
                liars.append(liar)
            desk = Desk(tmp_path / "desk", *honest, *liars)
            desk.write(SETTINGS)
            limits = ("--connect-timeout", "4s", "--channel-timeout", "5s", "--pass-timeout", "40s")
            for command in ("diff", "apply"):
                answer = await desk.transom(command, "-f", str(desk.manifests), "-o", "json", *limits)
                assert answer.out, answer.err
                rows = {host["name"]: host for host in answer.hosts}
                assert [(rows[name]["error"], rows[name]["result"]) for name in HONEST] == [(None, "changed")] * 3, command
                others = [row["error"] or "" for name, row in rows.items() if name not in HONEST]
                assert len(others) == len(BELOW_SFTP)
                assert [error for error in others if not error or "fault of Transom" in error or len(error) > 1000] == []
                assert "Traceback" not in answer.err
