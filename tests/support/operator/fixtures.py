from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import PROXY, Cluster, admin
from tests.support.operator.foreign import definition
from tests.support.operator.kubelets import Kubelets
from tests.support.operator.nodes import published
from tests.support.workers.payloads import TEXT, write

from transom.manifests.definitions import build_crds
from winsim import Simulator


@dataclass
class _Module:
    """The tests of a file that run one after the other, and the shared server before them: None where there was none."""

    path: Path = Path()
    found: int | None = None


_RUNNING: Final[list[ControlPlane]] = []
_MODULE: Final = _Module()


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    with ControlPlane(definitions=build_crds()) as running:
        _MODULE.found = running.read_revision()
        _RUNNING.append(running)
        yield running
        _RUNNING.remove(running)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Those of another file find the shared server as these did: who installs Transom leaves more than a test knows of."""
    if item.path != _MODULE.path:
        _MODULE.path = item.path
        _MODULE.found = _RUNNING[0].read_revision() if _RUNNING else None
    answer = yield
    if _RUNNING and _MODULE.found is not None and (nextitem is None or nextitem.path != item.path):
        _RUNNING[0].restore(_MODULE.found)
    return answer


@pytest.fixture(scope="module")
def machine_api(control_plane: ControlPlane) -> None:
    """OpenShift's Machines are a kind of the server."""
    control_plane.define([definition("machine.openshift.io", "v1beta1", "Machine", "machines", "Namespaced")])


@pytest.fixture
async def cluster(control_plane: ControlPlane, simulator: Simulator) -> AsyncIterator[Cluster]:
    found = control_plane.read_revision()
    async with admin(control_plane) as client:
        made = Cluster(control_plane, client, simulator)
        await made.prepare()
        yield made
    control_plane.restore(found)


@pytest.fixture
async def payload(cluster: Cluster, tmp_path: Path) -> Path:
    """A payload, and a cluster that says what a host has to know."""
    await published(cluster)
    await cluster.proxy(
        httpProxy=PROXY, httpsProxy=PROXY, networks={"serviceNetwork": ["10.96.0.0/16"], "podNetwork": ["10.244.0.0/16"]}
    )
    return write(tmp_path / "payload")


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """The next version of that payload."""
    return write(tmp_path / "newer", TEXT.replace("1.36.3-1", "1.36.3-2"), sizes=4000)


@pytest.fixture
async def kubelets(cluster: Cluster) -> AsyncIterator[Kubelets]:
    made = Kubelets(cluster)
    async with made.running():
        yield made
