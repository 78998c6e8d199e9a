"""Hosts for the tests of this directory."""

from collections.abc import AsyncIterator, Iterator

import pytest
from lab.machine import Machine
from tests.hosts.machines import Host, WineHost
from tests.hosts.real import RealHost
from tests.hosts.simulated import SERVICES, SimulatedHost

from transom.simulator import Simulator


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        machine.boot()
        yield machine


@pytest.fixture(params=["simulated", pytest.param("wine", marks=pytest.mark.lab), pytest.param("real", marks=pytest.mark.real)])
async def host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    if request.param == "real":
        real = RealHost(request.config.getoption("host"), request.config.getoption("host_key_file"), monkeypatch)
        await real.prepare()
        await real.restore()
        yield real
        await real.leave()
    elif request.param == "wine":
        wine = WineHost(request.getfixturevalue("machine"))
        await wine.restore()
        yield wine
    else:
        async with Simulator() as simulator:
            yield SimulatedHost(simulator, await simulator.add_host(services=SERVICES))
