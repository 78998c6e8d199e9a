"""A management cluster of Cluster API's v1beta1, upgraded in place to v1beta2 while Transom runs."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from lab.control_plane import ControlPlane
from tests.support.management import machines, manifests
from tests.support.management.apps import DEFINITION
from tests.support.management.management import Management
from tests.support.operator.clusters import admin

from lab import cluster_api
from transom.capi.bootstrap.machine_files import DROP_INS
from transom.manifests.definitions import build_crds

pytestmark = pytest.mark.lab
GROUPS = {"kubeadmconfigtemplates": "bootstrap.cluster.x-k8s.io", "machinedeployments": "cluster.x-k8s.io"}


@pytest.fixture
def old_plane() -> Iterator[ControlPlane]:
    """A management cluster before the upgrade."""
    with ControlPlane(definitions=(*cluster_api.read_definitions(("v1beta1",)), *build_crds(), DEFINITION)) as running:
        yield running


async def test_upgrade_in_place_is_followed(old_plane: ControlPlane) -> None:
    async with admin(old_plane) as client:
        management = Management(old_plane, client)
        await management.prepare()

        async def apply(*values: dict[str, Any]) -> None:
            await asyncio.to_thread(old_plane.apply, [in_namespace(management.org, value) for value in values])

        async def held(kind: str, name: str) -> dict[str, Any]:
            path = f"/apis/{GROUPS[kind]}/v1beta1/namespaces/{management.org}/{kind}/{name}"
            found: dict[str, Any] = json.loads(await asyncio.to_thread(old_plane.request, "GET", path))
            return found

        async def edited(name: str) -> bool:
            spec = (await held("kubeadmconfigtemplates", name))["spec"]["template"]["spec"]
            return [file["path"] for file in spec.get("files", ())] == list(DROP_INS)

        async def rolled() -> str | None:
            after: str | None = (await held("machinedeployments", "workers"))["spec"].get("rolloutAfter")
            return after

        await apply(manifests.cluster(), *map(in_v1beta1, (machines.template(), machines.deployment(replicas=0))))
        await apply(in_v1beta1(machines.machine("worker")))
        await asyncio.sleep(1.1)
        await management.settings(rollout="Automatic")
        async with management.operator(controllers=("egress", "clusters", "machines")):
            await management.until(lambda: edited("workers"))
            await management.until(rolled)
            assert "HTTP_PROXY" in (await management.data("Secret", "mycluster-systemd-proxy") or {})["containerdProxy"]
            generation = (await held("kubeadmconfigtemplates", "workers"))["metadata"]["generation"]
            await asyncio.to_thread(cluster_api.define, old_plane, ("v1beta1", "v1beta2"), "v1beta2")
            await apply(
                manifests.cluster("later", version="v1beta2"),
                machines.template("later", cluster="later") | {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2"},
            )
            await management.until(lambda: edited("later"))
            await management.until_data("Secret", "later-systemd-proxy", "containerdProxy", "HTTP_PROXY")
            after = (await held("kubeadmconfigtemplates", "workers"))["metadata"]["generation"]
            assert after == generation


def in_namespace(namespace: str, value: dict[str, Any]) -> dict[str, Any]:
    return value | {"metadata": value["metadata"] | {"namespace": namespace}}


def in_v1beta1(value: dict[str, Any]) -> dict[str, Any]:
    """References have an apiVersion there, and an object of the kind has another place for nothing that is used here."""
    group = "bootstrap.cluster.x-k8s.io" if value["kind"] == "KubeadmConfigTemplate" else "cluster.x-k8s.io"
    text = json.dumps(value | {"apiVersion": f"{group}/v1beta1"})
    for name, version in (("bootstrap.cluster.x-k8s.io", "v1beta1"), ("infrastructure.cluster.x-k8s.io", "v1")):
        text = text.replace(f'"apiGroup": "{name}"', f'"apiVersion": "{name}/{version}"')
    changed: dict[str, Any] = json.loads(text)
    return changed
