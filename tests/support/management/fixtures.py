from collections.abc import AsyncIterator, Iterator

import pytest
from lab.control_plane import ControlPlane
from tests.support.logged import logged_no_password
from tests.support.management.apps import DEFINITION
from tests.support.management.management import Management
from tests.support.operator.clusters import admin

from lab import cluster_api, flux
from transom.manifests.definitions import build_crds


@pytest.fixture(scope="session")
def management_plane() -> Iterator[ControlPlane]:
    """An API server with Cluster API's kinds, Transom's, the App and the HelmRelease."""
    kinds = (*cluster_api.read_definitions(), *flux.read_definitions(), *build_crds(), DEFINITION)
    with ControlPlane(definitions=kinds) as running:
        yield running


@pytest.fixture
async def management(
    management_plane: ControlPlane, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Management]:
    found = management_plane.read_revision()
    async with admin(management_plane) as client:
        made = Management(management_plane, client)
        await made.prepare()
        yield made
    management_plane.restore(found)
    logged_no_password(capsys, caplog)
