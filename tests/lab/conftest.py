"""The lab for the tests of this directory."""

from collections.abc import Iterator

import pytest
from lab.egress import Egress
from lab.machine import Machine
from lab.network import Network

pytestmark = pytest.mark.lab
PASSWORD = 'hunter2%^&!"\\é x'


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    """One network for all machines of a test run."""
    with Network() as network:
        yield network


@pytest.fixture
def machine(network: Network) -> Iterator[Machine]:
    """A machine that was booted just now, with its two recorder services."""
    with Machine(place=network.add_place()) as machine:
        machine.boot()
        yield machine


@pytest.fixture
def containerd_machine(network: Network) -> Iterator[Machine]:
    """The same with containerd."""
    with Machine(place=network.add_place(), containerd=True) as machine:
        machine.boot()
        machine.wait_for("containerd", "RUNNING")
        yield machine


@pytest.fixture
def egress(network: Network) -> Iterator[Egress]:
    """A proxy for everybody, and the registry behind it."""
    with Egress(network) as egress:
        yield egress


@pytest.fixture
def closed_egress(network: Network) -> Iterator[Egress]:
    """A proxy that asks for user and password."""
    with Egress(network, "alice", PASSWORD) as egress:
        yield egress
