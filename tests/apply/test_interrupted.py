"""Ctrl-C in the middle of many hosts: the report says of each what was done, as text and as JSON."""

import signal
from pathlib import Path

import msgspec
import pytest
from tests.apply.windows import SERVICES, SETTINGS, Desk, Simulated
from tests.support.waiting import until

from winsim import Fault, Simulator

pytestmark = pytest.mark.server


@pytest.mark.parametrize("output", ["text", "json"])
async def test_what_was_done_by_then_is_told(output: str, tmp_path: Path) -> None:
    async with Simulator() as simulator:
        hosts = [Simulated(simulator, await simulator.add_host(f"win-{number}", services=SERVICES)) for number in range(4)]
        desk = Desk(tmp_path / "desk", *hosts)
        desk.write(SETTINGS)
        hosts[3].host.faults.schedule_fault(Fault(1, "before", "hang"))
        process = await desk.start("apply", "-f", str(desk.manifests), "-o", output, "--all-at-once")
        await until(lambda: process.written()[1].count(b": changed") == 3)
        process.send_signal(signal.SIGINT)
        out, err = await process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in err
    lines = err.decode().splitlines()
    assert [line.partition(",")[0] for line in sorted(lines) if ": changed" in line] == [f"win-{n}: changed" for n in (1, 2, 3)]
    assert len([line for line in lines if line.startswith("transom: Ctrl-C: ")]) == 1
    if output == "json":
        report = msgspec.json.decode(out)
        assert report["stopped"] is True
        assert [host["result"] for host in report["hosts"]] == ["changed"] * 3 + ["skipped"]
        assert "nothing was changed" in report["hosts"][3]["error"]
    else:
        told = out.decode()
        assert told.splitlines()[-1] == "stopped by Ctrl-C: 4 hosts: 3 changed, 1 skipped"
        assert "3 hosts  changed" in told
        assert "win-4" in told


async def test_some_hosts_of_a_directory(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        hosts = [Simulated(simulator, await simulator.add_host(f"win-{number}", services=SERVICES)) for number in range(3)]
        desk = Desk(tmp_path / "desk", *hosts)
        desk.write(SETTINGS)
        planned = await desk.apply("--limit", "win-2", "--dry-run")
        assert (planned.code, [host["name"] for host in planned.hosts]) == (1, ["win-2"])
        values = {change["target"]: (change["before"], change["after"]) for change in planned.hosts[0]["changes"]}
        assert values["recorder-a: HTTP_PROXY"] == (None, "http://***@proxy.corp.example:3128")
        assert ".corp.example" in values["recorder-a: NO_PROXY"][1]
        answer = await desk.apply("--limit", "win-2,win-3")
        assert (answer.code, [host["name"] for host in answer.hosts]) == (0, ["win-2", "win-3"])
        assert hosts[0].host.traffic.connections == 0
        wrong = await desk.apply("--limit", "win-2", "--limit", "win-9")
        assert wrong.code == 2
        assert "--limit: no WindowsInstance win-9; there are win-1, win-2, win-3" in wrong.err
        hosts[1].host.cut_power()
        unread = await desk.transom("diff", "-f", str(desk.manifests), "--limit", "win-*")
        assert unread.code == 3
        assert unread.out.splitlines()[-1] == "3 hosts: 1 unchanged, 1 would change, 1 failed: win-2"
        back = await desk.transom("rollback", "-f", str(desk.manifests), "--limit", "win-3", "--dry-run", "-o", "json")
        assert "transom: win-3: back to no proxy and no CAs" in back.err.splitlines()
        assert back.hosts[0]["result"] == "changed"
        assert len(hosts[2].host.starts("recorder-a")) == 2
