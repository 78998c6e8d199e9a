"""Every number that is promised of work on hosts has a test that holds it, and a benchmark where time or load decides."""

import asyncio

import msgspec
import pytest
from tests.hosts.egress import ALICE, VALUE, apply, settings
from tests.hosts.simulated import SERVICES, SimulatedHost

from transom.cli.hosts import HostOptions
from transom.controllers.nodes.light_checks import LightChecks
from transom.controllers.runtime.options import HostTimings, Options
from transom.hosts.errors import PassTimedOut, Unreadable
from transom.hosts.passes.base_pass import hold_host
from transom.hosts.passes.configure import ConfigureResult
from transom.hosts.ssh.ssh_client import Access, Timeouts
from transom.hosts.steps.facts_parser import LIMIT, GatheredFacts
from transom.kube.store import ObjectKey
from transom.windows.host.host_state import ObservedState
from transom.windows.planning.planner import Plan
from transom.windows.registry.registry import Registry
from winsim import Simulator


async def test_a_change_is_one_import() -> None:
    async with Simulator() as simulator:
        host = SimulatedHost(simulator, await simulator.add_host(services=SERVICES))
        for value, imports in ((VALUE, 1), (VALUE, 0), (None, 1)):
            before = len(host.simulated.processes)
            assert (await apply(host, value)).error is None
            begun = host.simulated.processes[before:]
            assert sum("reg.exe" in line and " import " in line for line in begun) == imports


def test_answers_that_are_larger_are_not_parsed() -> None:
    with pytest.raises(Unreadable, match="8 MiB"):
        GatheredFacts.from_bytes(b"x" * (LIMIT + 1))


async def test_a_pass_ends_in_time() -> None:
    made = msgspec.structs.replace(settings(ALICE), timeouts=Timeouts(whole=0.01))
    with pytest.raises(PassTimedOut, match=r"the pass took longer than 0\.01 s"):
        async with hold_host(Access("192.0.2.1"), made):
            await asyncio.sleep(600)


def test_a_look_takes_the_place_of_a_pass_for_less_than_30_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only once a pass has found nothing to do after it."""
    now, key = 1000.0, ObjectKey("transom-system", "win-1")
    monkeypatch.setattr("time.monotonic", lambda: now)
    checks = LightChecks(0.9 * HostTimings().check_interval)
    quiet = ConfigureResult(before=ObservedState(Registry()), plan=Plan())
    assert checks.get_watched_items(key) is None
    checks.record_pass(key, quiet)
    assert checks.get_watched_items(key) is not None and not checks.is_unchanged(key, ("a",), b"1")
    checks.record_pass(key, quiet)
    assert checks.get_watched_items(key) is not None and checks.is_unchanged(key, ("a",), b"1")
    for inputs, digest in ((("b",), b"1"), (("a",), b"2"), (("a",), None)):
        checks.get_watched_items(key)
        assert not checks.is_unchanged(key, inputs, digest)
    now += 0.89 * 1800
    assert checks.get_watched_items(key) is not None
    now += 0.02 * 1800
    assert checks.get_watched_items(key) is None
    checks.record_pass(key, quiet)
    assert checks.get_watched_items(key) is not None and checks.is_unchanged(key, ("a",), b"1")
    checks.record_pass(key, msgspec.structs.replace(quiet, error=Unreadable("x")))
    assert checks.get_watched_items(key) is None


def test_commands_work_on_as_many_hosts_as_the_operator() -> None:
    assert HostOptions().workers == Options().workers == 32
