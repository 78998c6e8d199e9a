from collections.abc import AsyncIterator, Iterator

import pytest
from lab.control_plane import ControlPlane
from tests.operator.clusters import Cluster, admin
from tests.operator.foreign import definition

from transom.manifests.definitions import definitions
from transom.simulator import Simulator


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as running:
        running.define(definitions())
        yield running


@pytest.fixture(scope="module")
def machine_api(control_plane: ControlPlane) -> None:
    """OpenShift's Machines are a kind of the server."""
    control_plane.define([definition("machine.openshift.io", "v1beta1", "Machine", "machines", "Namespaced")])


@pytest.fixture
async def cluster(control_plane: ControlPlane, simulator: Simulator) -> AsyncIterator[Cluster]:
    async with admin(control_plane) as client:
        made = Cluster(control_plane, client, simulator)
        await made.prepare()
        yield made
        await made.leave()
