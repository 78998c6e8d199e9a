"""Every number that is promised of work on hosts has a test that holds it, and a benchmark where time or load decides."""

import asyncio
import importlib
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from tests.hosts.egress import ALICE, VALUE, apply, settings
from tests.hosts.simulated import SERVICES, SimulatedHost

from transom.cli.hosts import HostOptions
from transom.controllers.nodes.light_checks import LightChecks
from transom.controllers.runtime.options import Options, Pace
from transom.hosts.errors import PassTimedOut, Unreadable
from transom.hosts.passes import hold
from transom.hosts.passes.configure import Configured
from transom.hosts.ssh import Access, Timeouts
from transom.hosts.steps.facts_parser import LIMIT, FactsParser
from transom.kube.store import ObjectKey
from transom.windows.host import ObservedState
from transom.windows.planning import Plan
from transom.windows.registry import Registry
from winsim import Simulator

ROOT: Final = Path(__file__).parents[3]
FIGURES: Final = (ROOT / "benchmarks" / "README.md").read_text("utf-8")


class Number(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`value` is what stands at `where`, durations in seconds; `benchmarks` are rows of the figures, by module."""

    tests: tuple[str, ...]
    where: str = ""
    value: float | None = None
    benchmarks: dict[str, str] = {}


NUMBERS: Final = msgspec.yaml.decode(Path(__file__).with_name("numbers.yaml").read_bytes(), type=dict[str, Number])


@pytest.mark.parametrize("promise", NUMBERS)
def test_a_number_has_a_test_that_there_is(promise: str) -> None:
    number = NUMBERS[promise]
    assert number.tests
    for place, _, name in (test.partition("::") for test in number.tests):
        assert f"def {name}(" in (ROOT / place).read_text("utf-8"), f"{place}::{name}"
    for module, row in number.benchmarks.items():
        assert (ROOT / "benchmarks" / f"{module}.py").exists() and f"\n| {row} |" in FIGURES
    assert (number.value is None) is (not number.where)
    if number.where:
        assert _at(number.where) == number.value


def _at(where: str) -> float:
    module, _, path = where.partition(":")
    head, _, field = path.partition(".")
    found: Any = getattr(importlib.import_module(module), head)
    if field:
        found = next(one.default for one in msgspec.structs.fields(found) if one.name == field)
    return found.total_seconds() if isinstance(found, timedelta) else found


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
        FactsParser.of(b"x" * (LIMIT + 1))


async def test_a_pass_ends_in_time() -> None:
    made = msgspec.structs.replace(settings(ALICE), timeouts=Timeouts(whole=0.01))
    with pytest.raises(PassTimedOut, match=r"the pass took longer than 0\.01 s"):
        async with hold(Access("192.0.2.1"), made):
            await asyncio.sleep(600)


def test_a_look_takes_the_place_of_a_pass_for_less_than_30_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And only once a pass has found nothing to do after it."""
    now, key = 1000.0, ObjectKey("transom-system", "win-1")
    monkeypatch.setattr("time.monotonic", lambda: now)
    checks = LightChecks(0.9 * Pace().check_interval)
    quiet = Configured(before=ObservedState(Registry()), plan=Plan())
    assert checks.watched(key) is None
    checks.passed(key, quiet)
    assert checks.watched(key) is not None and not checks.is_unchanged(key, ("a",), b"1")
    checks.passed(key, quiet)
    assert checks.watched(key) is not None and checks.is_unchanged(key, ("a",), b"1")
    for inputs, digest in ((("b",), b"1"), (("a",), b"2"), (("a",), None)):
        checks.watched(key)
        assert not checks.is_unchanged(key, inputs, digest)
    now += 0.89 * 1800
    assert checks.watched(key) is not None
    now += 0.02 * 1800
    assert checks.watched(key) is None
    checks.passed(key, quiet)
    assert checks.watched(key) is not None and checks.is_unchanged(key, ("a",), b"1")
    checks.passed(key, msgspec.structs.replace(quiet, error=Unreadable("x")))
    assert checks.watched(key) is None


def test_commands_work_on_as_many_hosts_as_the_operator() -> None:
    assert HostOptions().workers == Options().workers == 32
