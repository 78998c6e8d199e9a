"""Hosts for the tests of this directory."""

from collections.abc import AsyncIterator, Iterator

import pytest
from lab.machine import Machine
from tests.hosts.machines import Host, WineHost
from tests.hosts.simulated import SERVICES, SimulatedHost

from transom.simulator import Simulator


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        machine.boot()
        yield machine


@pytest.fixture(params=["simulated", pytest.param("wine", marks=pytest.mark.lab)])
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    if request.param == "wine":
        wine = WineHost(request.getfixturevalue("machine"))
        await wine.restore()
        yield wine
    else:
        async with Simulator() as simulator:
            yield SimulatedHost(simulator, await simulator.add_host(services=SERVICES))
