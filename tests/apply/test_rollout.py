"""One change to many hosts: what each host gets, when, and what stops it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.apply.windows import SERVICES, SETTINGS, Desk, Simulated

from transom.apply import roll_out as roll_out_module
from transom.apply.report import STOPPED, HostReport
from transom.apply.roll_out import roll_out
from transom.apply.target import Target
from transom.hosts.errors import HostError, RestartsFailed, Unreachable
from transom.hosts.passes.base_pass import Admit, PassResult
from transom.proxy.finding import Place
from transom.proxy.objects import Meta
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.rollout.state import Stage
from transom.windows.host.queries import LEDGER
from transom.windows.host.queries import SERVICES as SERVICES_KEY
from transom.windows.nodes.windows_instance import WindowsInstance
from transom.windows.planning.planner import Plan
from winsim import Simulator
from winsim.checkpoint import Checkpoint
from winsim.computer import Invocation

CHANGE = Plan(forget=True)
EGRESS = Egress(Secret("http://proxy:3128"))


def target(number: int, egress: Egress = EGRESS) -> Target:
    name = f"win-{number}"
    return Target(WindowsInstance(metadata=Meta(name), place=Place("t", f"WindowsInstance/{name}")), egress, None)


class Hosts:
    """Hosts that differ; `outcome` says what becomes of one."""

    def __init__(self, outcome: Callable[[str], HostError | None] = lambda _: None, *, differ: bool = True) -> None:
        self.outcome, self.differ = outcome, differ
        self.begun: list[str] = []
        self.connected = 0
        self.changing = self.most = self.reading = self.most_reading = 0

    async def work(self, target: Target, admit: Admit) -> PassResult:
        name = target.instance.name
        self.connected += 1
        self.reading += 1
        self.most_reading = max(self.most_reading, self.reading)
        await asyncio.sleep(0.001)
        self.reading -= 1
        error = self.outcome(name)
        if isinstance(error, Unreachable):
            return PassResult(error=error)
        if not self.differ:
            return PassResult(plan=Plan())
        if not await admit():
            return PassResult(plan=CHANGE, waiting=True)
        self.begun.append(name)
        self.changing += 1
        self.most = max(self.most, self.changing)
        await asyncio.sleep(0.001)
        self.changing -= 1
        return PassResult(plan=CHANGE, begun=True, error=error)


async def rolled(
    hosts: Hosts, count: int, *, all_at_once: bool = False, at_once: int = 32
) -> tuple[dict[str, str], list[Stage]]:
    stages: list[Stage] = []
    results = {}
    targets = [target(number) for number in range(count)]
    async for done, report in roll_out(
        targets, hosts.work, max_concurrent=at_once, all_at_once=all_at_once, report_stage=stages.append
    ):
        results[done.instance.name] = report.error or report.result
    assert len(results) == count
    return results, stages


async def test_one_then_a_tenth_then_all() -> None:
    hosts = Hosts()
    results, stages = await rolled(hosts, 100)
    assert set(results.values()) == {"changed"}
    assert stages == ["tenth", "all"]
    assert hosts.begun[0] == "win-0"
    assert hosts.most <= 32
    # whoever was read and had to wait is connected to once more, and there are few of them
    assert hosts.connected - 100 <= 10


async def test_two_failures_stop_it() -> None:
    hosts = Hosts(lambda _: RestartsFailed("kubelet does not run"))
    results, stages = await rolled(hosts, 50)
    assert hosts.begun == ["win-0", "win-1"]
    assert stages[-1] == "halted"
    assert hosts.connected <= 3
    assert results["win-0"] == "kubelet does not run"
    assert results["win-49"] == "not changed: the rollout stopped after 2 failures (win-0, win-1)"


async def test_hosts_that_cannot_be_reached_say_nothing_about_a_change() -> None:
    hosts = Hosts(lambda name: Unreachable("no answer") if name in ("win-0", "win-1", "win-2", "win-9") else None)
    results, _ = await rolled(hosts, 12)
    assert sum(result == "changed" for result in results.values()) == 8
    assert sum(result == "no answer" for result in results.values()) == 4


async def test_all_at_once_is_held_back_by_nothing() -> None:
    hosts = Hosts(lambda name: RestartsFailed("no") if name < "win-3" else None)
    results, _ = await rolled(hosts, 20, all_at_once=True, at_once=20)
    assert len(hosts.begun) == hosts.most == len(results) == 20


async def test_hosts_that_are_right_are_read_side_by_side() -> None:
    hosts = Hosts(differ=False)
    results, stages = await rolled(hosts, 60)
    assert (set(results.values()), stages, hosts.connected) == ({"unchanged"}, [], 60)
    assert hosts.most_reading == 32


async def test_the_first_host_is_not_waited_for_while_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transom.apply.roll_out.READ_SECONDS", 0.01)
    hosts, answers = Hosts(), asyncio.Event()

    async def work(target: Target, admit: Admit) -> PassResult:
        if target.instance.name == "win-0":
            await answers.wait()
            return PassResult(error=Unreachable("no answer"))
        if target.instance.name == "win-11":
            answers.set()
        return await hosts.work(target, admit)

    found = {
        done.instance.name: report.result async for done, report in roll_out(map(target, range(12)), work, max_concurrent=4)
    }
    assert found == {"win-0": "failed"} | {f"win-{number}": "changed" for number in range(1, 12)}


async def test_hosts_with_other_settings_are_another_rollout() -> None:
    other = Egress(Secret("http://other:3128"))
    hosts = Hosts(lambda name: RestartsFailed("no") if name in ("win-0", "win-1") else None)
    targets = [target(0), target(1), target(2), *(target(number, other) for number in range(3, 6))]
    found = {done.instance.name: report.result async for done, report in roll_out(targets, hosts.work, max_concurrent=8)}
    assert found == {f"win-{number}": ("failed", "failed", "skipped", *["changed"] * 3)[number] for number in range(6)}
    assert "win-2" not in hosts.begun


@pytest.fixture
async def hosts() -> AsyncIterator[list[Simulated]]:
    async with Simulator() as simulator:
        yield [Simulated(simulator, await simulator.add_host(f"win-{number}", services=SERVICES)) for number in range(5)]


def breaks_tls(_: Invocation) -> int:
    return 60


def works(_: Invocation) -> int:
    return 0


async def test_a_proxy_that_breaks_tls_reaches_the_canary_and_says_so(hosts: list[Simulated], tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", *hosts)
    for host in hosts:
        host.host.fetch = breaks_tls
    checks = {"readinessEndpoints": ["https://registry.example/v2/"], "readinessPolicy": "Report"}
    desk.write({**SETTINGS, **checks})
    answer = await desk.apply("--workers", "2")
    assert answer.code == 1
    errors = [host["error"] for host in answer.hosts]
    assert "TLS fails" in errors[0]
    assert "hunter2" not in errors[0]
    assert set(errors[1:]) == {
        "not changed: the rollout stopped at its first host, which has no egress with these settings (win-1)"
    }
    for host in hosts[1:]:
        assert not len(await host.registry(LEDGER))

    back = await desk.transom("rollback", "-f", str(desk.manifests), "-o", "json")
    assert back.hosts[0]["result"] == "changed"
    (reason,) = {host["error"] for host in back.hosts[1:]}
    assert reason.startswith(f"not changed: no earlier settings are recorded in {desk.directory / 'state' / 'transom'}: ")
    assert "`transom apply`" in reason
    for host in hosts:
        assert not len(await host.registry(LEDGER))

    desk.write({**SETTINGS, **checks, "readinessPolicy": "Gate", "httpsProxy": "http://127.0.0.1:9"})
    answer = await desk.apply()
    assert {host["error"].partition(":")[0] for host in answer.hosts} == {"not changed"}
    assert "spec.readinessEndpoints[0]" in answer.hosts[4]["error"]


async def test_a_rollback_brings_back_what_the_hosts_were_well_with(hosts: list[Simulated], tmp_path: Path) -> None:
    desk = Desk(tmp_path / "desk", *hosts)
    checks = {"readinessEndpoints": ["https://registry.example/v2/"], "readinessPolicy": "Report"}
    for host in hosts:
        host.host.fetch = works
    desk.write({**SETTINGS, **checks})
    assert (await desk.apply()).code == 0
    before = [await host.registry(SERVICES_KEY) for host in hosts]
    for host in hosts:
        host.host.fetch = breaks_tls
    desk.write({**SETTINGS, **checks, "noProxy": "wrong.example"})
    assert (await desk.apply()).code == 1
    changed = [number for number, host in enumerate(hosts) if await host.registry(SERVICES_KEY) != before[number]]
    assert len(changed) == 1
    for host in hosts:
        host.host.fetch = works
    back = await desk.transom("rollback", "-f", str(desk.manifests), "-o", "json")
    assert back.code == 0
    assert [number for number, host in enumerate(back.hosts) if host["result"] == "changed"] == changed
    assert [await host.registry(SERVICES_KEY) for host in hosts] == before
    assert "hunter2" not in back.out + back.err
    kept = list((desk.directory / "state" / "transom" / "passed").iterdir())
    assert len(kept) == len(hosts)
    assert {file.stat().st_mode & 0o777 for file in kept} == {0o600}
    assert not any(b"proxy.corp.example" in file.read_bytes() for file in kept)


async def test_a_rebuilt_host_does_not_go_back_to_the_settings_of_its_predecessor(
    hosts: list[Simulated], tmp_path: Path
) -> None:
    host = hosts[0]
    desk, new = Desk(tmp_path / "desk", host), await Checkpoint.take(host.host)
    for bypassed in ("first.example", "second.example"):
        desk.write({**SETTINGS, "noProxy": bypassed})
        assert (await desk.apply()).code == 0
    new.restore()
    desk.write({**SETTINGS, "noProxy": "third.example"})
    assert (await desk.apply()).code == 0
    status = (await desk.transom("status", "-f", str(desk.manifests))).out
    # 1: there are changes
    assert (await desk.transom("rollback", "-f", str(desk.manifests), "--dry-run")).code == 1
    assert "Differs" not in status and "Differs" not in (await desk.transom("status", "-f", str(desk.manifests))).out
    assert (await desk.transom("rollback", "-f", str(desk.manifests))).code == 0
    assert not len(await host.registry(LEDGER))


async def test_called_off_what_is_being_changed_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more than that: one that does not end is called off as well, and reported as half changed."""
    monkeypatch.setattr(roll_out_module, "_FINISHING_SECONDS", 0.2)
    changing, finish = asyncio.Event(), asyncio.Event()
    called_off: list[str] = []

    async def work(target: Target, admit: Admit) -> PassResult:
        name = target.instance.name
        try:
            if name != "win-2":
                assert await admit()
                changing.set()
            await (finish if name == "win-0" else asyncio.Event()).wait()
        except asyncio.CancelledError:
            called_off.append(name)
            raise
        return PassResult(plan=CHANGE, begun=True)

    reports: dict[str, HostReport] = {}

    async def collect() -> None:
        targets = [target(number) for number in range(4)]
        async for done, report in roll_out(targets, work, max_concurrent=3, all_at_once=True):
            reports[done.instance.name] = report

    running = asyncio.ensure_future(collect())
    await changing.wait()
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.sleep(0)
    finish.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert {name: report.result for name, report in reports.items()} == {
        "win-0": "changed",
        "win-1": "failed",
        "win-2": "skipped",
        "win-3": "skipped",
    }
    assert called_off == ["win-2", "win-1"]
    assert reports["win-3"].error == STOPPED and all(reports[name].error != STOPPED for name in ("win-1", "win-2"))
