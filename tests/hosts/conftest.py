"""Hosts for the tests of this directory."""

from collections.abc import AsyncIterator, Iterator

import pytest

from lab.machine import Machine
from tests.hosts.machines import Host, WineHost


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        machine.boot()
        yield machine


@pytest.fixture(params=[pytest.param("wine", marks=pytest.mark.lab)])
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    found = WineHost(request.getfixturevalue("machine"))
    await found.restore()
    yield found
