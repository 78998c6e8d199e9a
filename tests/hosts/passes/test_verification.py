"""What each bench answers to the checks of `transom verify host`: anything else than this table is an error."""

import asyncio
import json
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hosts.attacks import SERVICE, change
from tests.hosts.egress import settings
from tests.hosts.machines import WineHost
from tests.hosts.simulated import SERVICES, SimulatedHost
from tests.support.forked import run

from transom.cli.verify import junit
from transom.hosts.passes.verification import Checked, verify
from transom.hosts.ssh.known_hosts import NoHostKeys
from transom.hosts.steps.checks import CHECKS
from transom.simulator import Host, Simulator, access
from transom.windows.host.queries import BOOT, BOOT_MARK, LEDGER
from transom.windows.registry.registry import DeleteKey, DeleteValue

NOT_THERE = {"task-scheduler", "ledger-closed"}
"""What neither bench has before a change: the service Schedule, a ledger."""


@pytest.fixture
async def host(simulator: Simulator) -> SimulatedHost:
    return SimulatedHost(simulator, await simulator.add_host(services=SERVICES))


async def verdicts(host: SimulatedHost | WineHost) -> dict[str, str]:
    found = await verify(host.access, NoHostKeys(), settings())
    assert [one.id for one in found] == [check.id for check in CHECKS]
    return {one.id: one.verdict for one in found if one.verdict != "pass"}


async def test_a_simulated_host_is_as_windows_is_taken_to_be(simulator: Simulator, host: SimulatedHost) -> None:
    assert await verdicts(host) == dict.fromkeys(NOT_THERE, "not applicable")
    assert not host.has_base(), "nothing is left"
    assert host.simulated.unknown == []
    host.simulated.add_service(SERVICE)
    assert (await change(simulator, host.simulated, "hunter2")).error is None
    before = sorted(host.files()), host.simulated.registry
    assert await verdicts(host) == {"task-scheduler": "not applicable"}
    assert (sorted(host.files()), host.simulated.registry) == before, "on a host in use, too"
    host.simulated.keys.replace(LEDGER, (access.Ace(access.USERS, 0x20019, 0),), host.simulated.registry)
    assert (await verdicts(host))["ledger-closed"] == "fail"


def _theirs(host: Host) -> None:
    host.files.set_access(host.files.directory(r"C:\Program Files"), owner="S-1-5-21-1-2-3-1001")


# a bench that breaks just one rule, and the one check that says so
BROKEN: dict[str, Callable[[Host], object]] = {
    "boot-count": lambda host: host.edit([DeleteValue(BOOT, "BootId")]),
    "boot-mark": lambda host: host.edit([DeleteKey(BOOT_MARK)]),
    "certutil": lambda host: host.blocked.add("certutil.exe"),
    "get-file-hash": lambda host: host.blocked.add("Get-FileHash"),
    "owner": _theirs,
}


@pytest.mark.parametrize("check", BROKEN)
async def test_what_is_broken_is_found(host: SimulatedHost, check: str) -> None:
    BROKEN[check](host.simulated)
    assert await verdicts(host) == dict.fromkeys(NOT_THERE, "not applicable") | {check: "fail"}


@pytest.mark.parametrize("at", range(4, 40, 4))
async def test_called_off_anywhere_it_leaves_nothing(host: SimulatedHost, at: int) -> None:
    running = asyncio.ensure_future(verify(host.access, NoHostKeys(), settings()))
    while not running.done() and len(host.simulated.traffic.requests) < at:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert not host.has_base()


@pytest.mark.lab
async def test_wine_differs_where_it_is_known_to(request: pytest.FixtureRequest) -> None:
    wine = WineHost(request.getfixturevalue("machine"))
    await wine.restore()
    # stubs; a service Schedule that does not run: the restarts are handed to a service; lines of cmd end at 8,191 letters
    stubs = dict.fromkeys(("certutil", "get-file-hash", "task-scheduler", "long-lines"), "fail")
    assert await verdicts(wine) == {"ledger-closed": "not applicable"} | stubs
    assert not wine.has_base()


async def test_the_command_says_what_it_saw(host: SimulatedHost, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(host.access.keys[0].reveal())
    host.simulated.blocked.add("certutil.exe")
    where = ("verify", "host", host.access.address, "-p", str(host.access.port), "-u", host.access.username, "-i", str(key))
    environment = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "PATH": os.defpath}
    report = tmp_path / "report.xml"
    for form in ("json", "text"):
        ran = await asyncio.to_thread(run, *where, "-o", form, "--junit", str(report), environment=environment)
        assert (ran.returncode, ran.stderr) == (1, "")
        if form == "json":
            checks = {one["id"]: one["verdict"] for one in json.loads(ran.stdout)["checks"]}
            assert checks == {check.id: checks[check.id] for check in CHECKS} and checks["certutil"] == "fail"
        else:
            assert len(ran.stdout.splitlines()) == len(CHECKS)
        assert ElementTree.fromstring(report.read_text().split("?>", 1)[1]).get("failures") == "1"
    assert not host.has_base()


def test_junit() -> None:
    found = (
        Checked("a", "A holds", "page", "pass", "x", 0.5),
        Checked("b", "B holds", "page", "fail", "\x1b<&", 0.25),
        Checked("c", "C holds", "page", "not applicable", "", 0),
    )
    suite = ElementTree.fromstring(junit("win-1", found))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["skipped"]]
