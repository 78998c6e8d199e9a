import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from lab.control_plane import ControlPlane
from tests.kube.gadgets import GADGET_DEFINITION, define_gadgets
from tests.kube.relay import Relay, relay_to

from transom.kube.client import Client
from transom.kube.connection import connect


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as running:
        yield running


@pytest.fixture
async def relay(control_plane: ControlPlane) -> AsyncIterator[Relay]:
    async with relay_to(control_plane.port, control_plane.directory) as running:
        yield running


@pytest.fixture
async def direct(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """The administrator's client, straight to the server."""
    connection = connect(str(control_plane.kubeconfig))
    yield Client(connection)
    await connection.close()


@pytest.fixture
async def relayed(control_plane: ControlPlane, relay: Relay) -> AsyncIterator[Client]:
    """The administrator's client, through the relay."""
    path = control_plane.write_kubeconfig("relayed", control_plane.admin_token, server=relay.url)
    connection = connect(str(path))
    yield Client(connection)
    await connection.close()


@pytest.fixture
async def gadgets(control_plane: ControlPlane) -> AsyncIterator[None]:
    """A kind of its own for each test."""
    await define_gadgets(control_plane)
    yield
    await asyncio.to_thread(control_plane.forget, [GADGET_DEFINITION])
