"""A host of each kind, as it is before Transom's first visit."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from lab.machine import Machine
from tests.apply.windows import SERVICES, Desk, Simulated, Windows, Wine

from winsim import Simulator


@pytest.fixture(params=["simulator", pytest.param("wine", marks=pytest.mark.lab)])
async def windows(request: pytest.FixtureRequest) -> AsyncIterator[Windows]:
    if request.param == "simulator":
        async with Simulator() as simulator:
            yield Simulated(simulator, await simulator.add_host("win", services=SERVICES))
        return
    with Machine() as machine:
        machine.boot()
        yield Wine(machine)


@pytest.fixture
async def simulated() -> AsyncIterator[Simulated]:
    async with Simulator() as simulator:
        yield Simulated(simulator, await simulator.add_host("win", services=SERVICES))


@pytest.fixture
def desk(windows: Windows, tmp_path: Path) -> Desk:
    return Desk(tmp_path / "desk", windows)


@pytest.fixture
def desk_of_simulated(simulated: Simulated, tmp_path: Path) -> Desk:
    return Desk(tmp_path / "desk", simulated)
