"""The machines' networks of the objects that a Cluster names, followed on a server that has AWS's own definitions."""

import asyncio
from typing import Any

import pytest
from tests.support.management.management import Management

from lab import infrastructure

pytestmark = pytest.mark.lab
VALUES = "mycluster-cluster-values"


def aws_cluster(**network: Any) -> dict[str, Any]:
    spec = {"region": "eu-west-1", "network": {"vpc": network}}
    return {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "AWSCluster",
        "metadata": {"name": "infra"},
        "spec": spec,
    }


EKS = {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "AWSManagedControlPlane", "name": "plane"}


def eks_control_plane(network: str) -> dict[str, Any]:
    spec = {"region": "eu-west-1", "network": {"vpc": {"cidrBlock": network}}}
    head = {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "AWSManagedControlPlane"}
    return {**head, "metadata": {"name": "plane"}, "spec": spec}


async def test_the_list_follows_the_infrastructure_object(management: Management) -> None:
    plane = management.control_plane
    module = infrastructure.MODULES["aws"][0]
    kinds = [(module, "awsclusters"), (module, "awsmanagedcontrolplanes", "controlplane.cluster.x-k8s.io")]
    definitions = infrastructure.read_definitions(kinds)
    await asyncio.to_thread(plane.define, definitions)

    def named(value: dict[str, Any]) -> list[dict[str, Any]]:
        return [value | {"metadata": value["metadata"] | {"namespace": management.org}}]

    async def put(value: dict[str, Any]) -> None:
        await asyncio.to_thread(plane.apply, named(value))

    await management.cluster()
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AWSCluster", "name": "infra"}
    await management.merge("Cluster", "mycluster", {"spec": {"infrastructureRef": reference}}, management.org)
    await management.settings()
    async with management.operator(controllers=("egress", "clusters")):
        await management.until_data("ConfigMap", VALUES, "values", "localhost,169.254.169.254\n")
        await put(aws_cluster(cidrBlock="10.1.0.0/16"))
        added = "localhost,169.254.169.254,.eu-west-1.compute.internal,10.1.0.0/16\n"
        await management.until_data("ConfigMap", VALUES, "values", added)
        await put(aws_cluster(cidrBlock="10.2.0.0/16"))
        await management.until_data("ConfigMap", VALUES, "values", added.replace("10.1", "10.2"))
        await asyncio.to_thread(plane.delete, named(aws_cluster()))
        await management.until_data("ConfigMap", VALUES, "values", "localhost,169.254.169.254\n")
        # of EKS the control plane's object says it
        await management.merge("Cluster", "mycluster", {"spec": {"controlPlaneRef": EKS}}, management.org)
        await put(eks_control_plane("10.3.0.0/16"))
        await management.until_data("ConfigMap", VALUES, "values", added.replace("10.1", "10.3"))
    await asyncio.to_thread(plane.forget, definitions)
