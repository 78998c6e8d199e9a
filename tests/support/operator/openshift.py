"""What of OpenShift a worker is made by, on the lab's API server."""

import asyncio
import base64
from typing import Any

from tests.support.operator.clusters import Cluster
from tests.support.operator.foreign import definition

from transom.kube.objects import UnstructuredObject
from transom.kube.resources import Resource

OPERATOR_NETWORKS = Resource("operator.openshift.io", "v1", "Network", "networks", False, UnstructuredObject)
CONFIG_OPERATOR = "openshift-machine-config-operator"
KINDS = [
    definition("config.openshift.io", "v1", "Network", "networks"),
    definition("config.openshift.io", "v1", "Infrastructure", "infrastructures"),
    definition("operator.openshift.io", "v1", "Network", "networks"),
    definition("config.openshift.io", "v1", "ImageDigestMirrorSet", "imagedigestmirrorsets"),
    definition("config.openshift.io", "v1", "Image", "images"),
    definition("machineconfiguration.openshift.io", "v1", "ControllerConfig", "controllerconfigs"),
    definition("machineconfiguration.openshift.io", "v1", "MachineConfig", "machineconfigs"),
    definition("machineconfiguration.openshift.io", "v1", "MachineConfigPool", "machineconfigpools"),
]
SERVER = "https://api-int.ocp.corp.example:6443"


def token_secret(token: str) -> dict[str, Any]:
    return {"data": {"token": base64.b64encode(token.encode()).decode()}}


async def plane_map(cluster: Cluster, namespace: str, name: str, data: dict[str, str]) -> None:
    metadata = {"name": name, "namespace": namespace}
    await asyncio.to_thread(
        cluster.control_plane.apply, [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}]
    )
