"""OpenShift's kinds on the lab's API server: the definitions of its published Go module, as its release payload has them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import yaml

from lab.control_plane import ControlPlane
from lab.golang import fetch_module_source

MODULE = Path(__file__).parent / "go" / "openshift"
_API = "github.com/openshift/api"
_PAYLOAD = "payload-manifests/crds"
_MACHINE_API = "machine/v1beta1/zz_generated.crd-manifests"
PROXIES = f"{_PAYLOAD}/0000_03_config-operator_01_proxies.crd.yaml"
NETWORKS = f"{_PAYLOAD}/0000_10_config-operator_01_networks.crd.yaml"
INFRASTRUCTURES = f"{_PAYLOAD}/0000_10_config-operator_01_infrastructures-Default.crd.yaml"
MACHINES = f"{_MACHINE_API}/0000_10_machine-api_01_machines-Default.crd.yaml"
MACHINE_SETS = f"{_MACHINE_API}/0000_10_machine-api_01_machinesets-Default.crd.yaml"
CONFIG = (PROXIES, NETWORKS, INFRASTRUCTURES)
"""config.openshift.io/v1: Proxy, Network, Infrastructure. All cluster-scoped, each with its status as a subresource."""
MACHINE_API = (MACHINES, MACHINE_SETS)
"""machine.openshift.io/v1beta1: Machine, MachineSet."""


def read_definitions(files: tuple[str, ...] = CONFIG) -> list[dict[str, Any]]:
    """Read CustomResourceDefinitions by their path in the module."""
    return [yaml.load((_fetch_source() / file).read_text(), yaml.CSafeLoader) for file in files]


def define(control_plane: ControlPlane, files: tuple[str, ...] = CONFIG) -> None:
    """Bring definitions to the server and wait until it serves them."""
    control_plane.define(read_definitions(files))


def forget(control_plane: ControlPlane, files: tuple[str, ...] = CONFIG) -> None:
    """Take definitions from the server, with every object of them, and wait until they are gone."""
    control_plane.forget(read_definitions(files))


@functools.cache
def _fetch_source() -> Path:
    return fetch_module_source(MODULE, _API)
