"""What passes start on a host: a gather may take four processes, and two for each service."""

from pathlib import Path

import pytest
from tests.apply.targets import target
from tests.apply.traces import OWN, ROOT, root_2, seen
from tests.apply.windows import PEM, SERVICES, SETTINGS, Desk, Simulated, Windows, difference
from tests.windows.authorities import der, sha1

from transom.apply.host_pass import HostPass
from transom.hosts.owner import Owner
from transom.hosts.passes.base_pass import PassSettings
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.windows.host.queries import LEDGER
from transom.windows.parts import certificates
from transom.windows.planning.queries import PROCESSES
from transom.windows.registry.edits import SetValue
from winsim import Simulator

SCOPES = ["Services", "Machine", "Both"]
# as every Windows has them; one is longer than a line of cmd, one stands in a store with a blank in its name
CERTIFICATES = [
    SetValue(
        rf"{certificates.get_store_path(name)}\{sha1(root_2)}", "Blob", certificates.build_blob(der(root_2) * 9, sha1(root_2))
    )
    for name in ("CA", "Disallowed", "AuthRoot", "Trusted Devices")
]


def gathers(processes: list[str]) -> list[list[str]]:
    """The programs of each gather, without those for services, and for a directory that no ledger says is ours."""
    found: list[list[str]] = []
    inside = False
    for line in processes:
        if "ledger.reg" in line:
            found.append([])
            inside = True
        elif "cmd.exe" in line:
            inside = False
        if inside and not any(name in line for name in (*SERVICES, "icacls.exe", "powershell.exe")):
            found[-1].append(line)
    return found


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("bundle", ["", PEM[0], "".join(PEM)], ids=["no CA", "a root", "both stores"])
async def test_a_gather_starts_no_more_than_it_may(tmp_path: Path, scope: str, bundle: str) -> None:
    async with Simulator() as simulator:
        host = await simulator.add_host("win", services=SERVICES)
        host.edit([*CERTIFICATES, SetValue(rf"{ROOT}\x", "Blob", certificates.build_blob(der(root_2), sha1(root_2)))])
        desk = Desk(tmp_path / "desk", Simulated(simulator, host))
        host_pass = HostPass(NoHostKeys(), PassSettings(Owner("tests", "processes")))
        spec = {**SETTINGS, "windows": {"environmentScope": scope}}
        if not bundle:
            del spec["trustedCA"]
        for wanted in (spec, {}):
            desk.write(wanted, bundle=bundle or PEM[0])
            for result in ("changed", "unchanged"):
                host.processes.clear()
                told = await host_pass.run_and_report(target(desk))
                assert (told.result, told.error) == (result, None)
                counts = [len(gather) for gather in gathers(host.processes)]
                assert max(counts) <= PROCESSES, gathers(host.processes)
                assert result == "changed" or len(counts) == 1
        assert host.unknown == []


async def test_stores_that_are_read_at_once_are_read_right(desk: Desk, windows: Windows) -> None:
    """Both: what was there stays, what is ours comes and goes, what somebody removes comes back."""
    await windows.edit([*OWN, *CERTIFICATES])
    before = await seen(windows)
    desk.write({**SETTINGS, "windows": {"environmentScope": "Both"}})
    assert (await desk.apply()).hosts[0]["error"] is None
    (again,) = (await desk.apply()).hosts
    assert (again["result"], again["channels"]) == ("unchanged", 2)
    assert "Disallowed" in again["warnings"][0]
    desk.write({"windows": {"environmentScope": "Both"}})
    assert (await desk.apply()).hosts[0]["error"] is None
    assert difference(before, await seen(windows)) == []
    assert not len(await windows.registry(LEDGER))
