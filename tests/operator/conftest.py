from collections.abc import AsyncIterator, Iterator

import pytest
from lab.control_plane import ControlPlane
from tests.operator.clusters import Cluster, admin

from transom.manifests.definitions import definitions
from transom.simulator import Simulator


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane() as running:
        running.apply(definitions())
        running.kubectl("wait", "--for=condition=Established", "--timeout=20s", "crd", "--all")
        yield running


@pytest.fixture
async def cluster(control_plane: ControlPlane, simulator: Simulator) -> AsyncIterator[Cluster]:
    async with admin(control_plane) as client:
        made = Cluster(control_plane, client, simulator)
        await made.prepare()
        yield made
        await made.leave()
