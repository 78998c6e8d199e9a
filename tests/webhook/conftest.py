from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from lab.control_plane import ControlPlane
from tests.pods.table import NAMESPACES, OWN
from tests.support.logged import logged_no_password
from tests.support.operator.clusters import admin
from tests.webhook.caller import Caller, calling
from tests.webhook.clusters import Admission

from transom.manifests.admission import iter_admission_roles
from transom.manifests.definitions import build_crds
from transom.manifests.roles import iter_roles


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane(controllers=True, definitions=build_crds()) as running:
        namespaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            for name, labels in {OWN: {}, **NAMESPACES}.items()
        ]
        running.apply([*namespaces, *iter_admission_roles(OWN), *iter_roles(OWN, ("egress",))])
        yield running


@pytest.fixture
async def admission(
    control_plane: ControlPlane, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Admission]:
    async with admin(control_plane) as client:
        made = Admission(control_plane, client)
        yield made
        await made.clear()
    logged_no_password(capsys, caplog)


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with calling(tmp_path) as made:
        yield made
