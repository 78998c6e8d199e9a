"""A connection cut at each request of a pass in turn, with all that Transom sets: the next pass converges, removal is exact."""

from pathlib import Path
from typing import Literal

import pytest
from tests.apply.targets import target
from tests.apply.traces import OWN, seen
from tests.apply.windows import SERVICES, SETTINGS, Desk, Simulated, difference
from tests.support.cuts import Cuts

from transom.apply.host_pass import HostPass
from transom.apply.report import HostReport
from transom.apply.target import Target
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.windows.host.queries import LEDGER
from winsim import Fault, Simulator


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("cut", ["apply", "removal"])
async def test_cut_at_every_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: Literal["before", "after"], cut: str
) -> None:
    host_pass = HostPass(NoHostKeys(), PassSettings(Owner("tests", "cuts")))
    async with Simulator() as simulator:
        windows = Simulated(simulator, await simulator.add_host("win", services=SERVICES))
        host = windows.host
        desk = Desk(tmp_path / "desk", windows)
        await windows.edit(OWN)
        before = await seen(windows)
        scope = {"windows": {"environmentScope": "Both"}}
        desk.write({**SETTINGS, **scope})
        wanted = target(desk)
        desk.write(scope)
        nothing = target(desk)

        async def done(what: Target) -> HostReport:
            report = await host_pass.run_and_report(what)
            assert report.error is None, report
            return report

        if cut == "removal":
            await done(wanted)
        cuts = await Cuts.of(monkeypatch, host)
        at, came = 0, True
        while came:
            at += 1
            cuts.begin()
            host.faults.schedule_fault(Fault(at, when, "cut"))
            await host_pass.run_and_report(wanted if cut == "apply" else nothing)
            came = host.faults.ordered is None
            host.faults.cancel_fault()
            if await cuts.met():
                continue
            await done(wanted if cut == "apply" else nothing)
            if await cuts.met():
                continue
            if cut == "apply":
                assert (await done(wanted)).result == "unchanged"
                await done(nothing)
            assert difference(before, await seen(windows)) == [], at
            assert not len(await windows.registry(LEDGER)), at
            assert "Transom" not in windows.files(), at
            assert [service.state.name for service in map(host.services.get, SERVICES)] == ["RUNNING"] * 2, at
        assert min(at, cuts.followed[0]) > 30
        assert host.unknown == []
