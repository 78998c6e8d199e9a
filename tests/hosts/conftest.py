"""Hosts for the tests of this directory."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from lab.machine import Machine
from tests.hosts.machines import Bench, Host, WineHost
from tests.hosts.real import RealHost
from tests.hosts.simulated import SERVICES, SimulatedHost

from transom.hosts.ssh import directory, transport
from winsim import Simulator


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        machine.boot()
        yield machine


@pytest.fixture
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a virus scanner may be in the way of is tried as often, but sooner: a second of simulated hosts lasts 0.01."""
    for module in (directory, transport):
        monkeypatch.setattr(module, "BETWEEN_ATTEMPTS", 0.1)
    monkeypatch.setattr(transport, "BUSY_SECONDS", 2.0)


_BENCHES = ("simulated", pytest.param("wine", marks=pytest.mark.lab))


@pytest.fixture(params=[*_BENCHES, pytest.param("real", marks=pytest.mark.real)])
async def host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    if request.param == "real":
        real = RealHost(request.config.getoption("host"), request.config.getoption("host_key_file"), monkeypatch)
        await real.prepare()
        await real.restore()
        yield real
        await real.leave()
    else:
        async with _bench(request) as found:
            yield found


@pytest.fixture(params=_BENCHES)
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A host that boots when a test says so: the tests may run on a real one themselves."""
    async with _bench(request) as found:
        yield found


@asynccontextmanager
async def _bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    if request.param == "wine":
        wine = WineHost(request.getfixturevalue("machine"))
        await wine.restore()
        yield wine
    else:
        async with Simulator() as simulator:
            yield SimulatedHost(simulator, await simulator.add_host(services=SERVICES))
