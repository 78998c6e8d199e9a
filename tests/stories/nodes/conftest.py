"""Machines with SSH and nothing else, the payload that makes them workers, and their way out."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from lab.control_plane import ControlPlane
from lab.egress import Egress
from lab.machine import Machine
from lab.network import Network
from lab.operator_image import Images, Registry
from tests.support.operator.installation import Installation

from lab import operator_image, payload
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.secret import Secret

PASSWORD = 'hunter2%^&!"\\é x'
API_NAME = "api.corp.example"
"""The API server's name, which only squid resolves."""
SOURCE_VIP = "10.9.9.9"


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


@pytest.fixture(scope="session")
def payload_directory() -> PayloadDirectory:
    """kubelet.exe, containerd.exe and kube-proxy.exe."""
    return PayloadDirectory.open(payload.build_directory())


@pytest.fixture(scope="session")
def control_plane(network: Network) -> Iterator[ControlPlane]:
    """An API server and a controller manager that signs; machines reach it without a proxy, too."""
    with ControlPlane(controllers=True, address=network.address) as control_plane:
        yield control_plane


@pytest.fixture(scope="session")
def egress(network: Network) -> Iterator[Egress]:
    """squid with basic authentication; what goes to the API server is tunnelled, the rest decrypted."""
    with Egress(network, "alice", PASSWORD, tunnels={API_NAME: network.address}) as egress:
        yield egress


@pytest.fixture(scope="session")
def registry(egress: Egress) -> Registry:
    return egress.registry


@pytest.fixture(scope="session")
def image(registry: Registry) -> str:
    """The operator's image in the registry, by digest."""
    return registry.push(operator_image.build_layout(), "transom")


@pytest.fixture(scope="session")
def images(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Images:
    """What a node has pulled."""
    return Images(registry, tmp_path_factory.mktemp("images"))


@pytest.fixture
def bare_machine(network: Network) -> Iterator[Callable[[str], Machine]]:
    """Makes and boots a machine of that host name, with an address and ports 22 and 10250 of its own."""
    with ExitStack() as stack:

        def make(name: str) -> Machine:
            machine = stack.enter_context(Machine(name.lower(), place=network.add_place(name), bare=True))
            machine.boot()
            (machine.drive / "lab" / "powershell.out").write_text(f"{SOURCE_VIP}\r\n")
            return machine

        yield make


@pytest.fixture
async def installed(control_plane: ControlPlane) -> AsyncIterator[Installation]:
    made = Installation(control_plane)
    await made.install()
    yield made
    await made.remove()
    await asyncio.to_thread(control_plane.request, "DELETE", "/api/v1/nodes")
    if "machines.machine.openshift.io" in await made.kubectl("get", "crds", "-o", "name"):
        await made.kubectl("delete", "machines.machine.openshift.io", "--all", "-A", "--ignore-not-found")


def provided(control_plane: ControlPlane, kubeconfig: str) -> dict[str, Secret | None]:
    """The files that the lab's payload wants."""
    return {"kubelet-ca": Secret(control_plane.client_authority_file.read_text()), "bootstrap-kubeconfig": Secret(kubeconfig)}


def variables(control_plane: ControlPlane, egress: Egress) -> dict[str, str]:
    """The cluster facts that the lab's payload uses."""
    return {
        "API_SERVER": f"https://{API_NAME}:{control_plane.port}",
        "CLUSTER_DNS": "10.96.0.10",
        "CLUSTER_DOMAIN": "cluster.local",
        "CLUSTER_CIDR": "10.244.0.0/16",
        "NODE_LABELS": "node.openshift.io/os_id=Windows",
        "PAUSE_IMAGE": egress.format_image("none"),
    }


@pytest.fixture
def payload_path(tmp_path: Path) -> Path:
    """An empty directory for a payload."""
    path = tmp_path / "payload"
    path.mkdir()
    return path
