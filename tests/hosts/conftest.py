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


@pytest.fixture(params=["simulator", pytest.param("wine", marks=pytest.mark.lab)])
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    if request.param == "simulator":
        async with Simulator() as simulator:
            yield SimulatedHost(simulator, await simulator.add_host(services=SERVICES))
        return
    found = WineHost(request.getfixturevalue("machine"))
    await found.restore()
    yield found
