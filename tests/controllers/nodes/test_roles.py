"""The role of the controller of nodes: nothing it asks for is refused, and no verb is left over."""

import asyncio
import functools
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.support.operator import openshift
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.foreign import definition
from tests.support.operator.kubelets import Kubelets
from tests.support.operator.limited import limited
from tests.support.operator.nodes import SUBNET, bare, published
from tests.support.operator.rights import Use, asked, granted
from tests.support.operator.upgrades import NETWORKS, QUICK
from tests.support.waiting import until
from tests.support.workers.payloads import TEXT, write

from transom.controllers.join.cluster_registries import MIRROR_SETS
from transom.controllers.join.credential_providers import MACHINE_CONFIG_POOLS, MACHINE_CONFIGS
from transom.kube.events import EventRecorder, RepetitionPolicy
from transom.kube.resources import EGRESS_PROXIES, WINDOWS_INSTANCES
from transom.manifests.roles import iter_roles
from transom.sources.infrastructure import KINDS as INFRASTRUCTURE

pytestmark = pytest.mark.lab
KINDS = [
    *openshift.KINDS,
    definition("config.openshift.io", "v1", "Proxy", "proxies"),
    definition("config.openshift.io", "v1", "ImageTagMirrorSet", "imagetagmirrorsets"),
    definition("machine.openshift.io", "v1beta1", "Machine", "machines", "Namespaced"),
    definition("machine.openshift.io", "v1beta1", "MachineSet", "machinesets", "Namespaced"),
    definition("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", "Namespaced"),
    *(definition(group, "v1beta1", kind, plural, "Namespaced") for kind, (group, plural) in INFRASTRUCTURE.items()),
]


@pytest.fixture
async def defined(cluster: Cluster) -> AsyncIterator[None]:
    plane = cluster.control_plane
    place = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-config"}}
    await asyncio.to_thread(plane.define, [place, *KINDS])
    yield
    await asyncio.to_thread(plane.forget, KINDS)


@pytest.mark.usefixtures("defined")
async def test_a_nodes_life_uses_each_verb(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It joins, with a mirror of OpenShift's; it is drained, which a budget holds up; it goes with its Machine."""
    monkeypatch.setattr(
        "transom.controllers.operator.EventRecorder",
        functools.partial(EventRecorder, repetition_policy=RepetitionPolicy(spacing=0.1)),
    )
    namespace = cluster.namespace
    await published(cluster)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, networks=NETWORKS)
    mirrors = [{"source": "quay.io", "mirrors": ["mirror.corp.example/quay"]}]
    await cluster.put(MIRROR_SETS[0], "corp", spec={"imageDigestMirrors": mirrors})
    await cluster.put(MACHINE_CONFIG_POOLS, "worker", spec={"configuration": {"name": "rendered-worker-1"}})
    await cluster.put(MACHINE_CONFIGS, "rendered-worker-1", spec={"config": {}})
    providers = r"- {path: 'C:\k\providers.yaml', provided: credential-provider-config, content: its own, services: [kubelet]}"
    payload = write(tmp_path / "payload", TEXT.replace("files:\n", f"files:\n{providers}\n"))
    host = await bare(cluster, "win")
    await cluster.instance("win-1", host, lifecycle="Node")
    await cluster.instance("win-2", other := await bare(cluster, "other"), lifecycle="Node")
    kubelets, pace = Kubelets(cluster), msgspec.structs.replace(QUICK, drain=0.2)
    objects = list(iter_roles(namespace, ("nodes",), openshift=True))
    wanted = {(role["kind"], role["metadata"].get("namespace")): set[Use]() for role in objects if "rules" in role}
    wanted = {place: granted(objects, *place) for place in wanted}
    user = f"system:serviceaccount:{namespace}:transom"

    def left_over() -> dict[tuple[str, str | None], list[Use]]:
        uses = asked(cluster.control_plane, user, cluster.began)
        found = {
            (kind, where): sorted(of - {use for use, item, _ in uses if where in (None, item)})
            for (kind, where), of in wanted.items()
        }
        return {role: uses for role, uses in found.items() if uses}

    async with (
        limited(cluster, "nodes", openshift=True) as client,
        kubelets.running(),
        cluster.operator(client, controllers=("nodes",), payload=payload, pace=pace),
    ):
        await cluster.until("win-1", NodeReady="False/Registering")
        node = await kubelets.join(host, **SUBNET)
        await cluster.until("win-1", NodeReady="True", Configured="True/UpToDate")
        # which hosts are begun is written for the first change, and written anew for the next one
        for name in ("one.example.com", "two.example.com"):
            await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, networks=NETWORKS, noProxy=name)
            await until(lambda name=name: all(name in str(environment(item, "containerd")) for item in (host, other)))
        await kubelets.pod("web", node, app="web")
        await kubelets.budget(0)
        await cluster.delete(WINDOWS_INSTANCES, "win-1")
        await cluster.until("win-1", Configured="False/DrainBlocked")
        marks = {"labels": {"transom.dev/source": "Machine"}, "annotations": {"transom.dev/origin": f"{namespace}/m"}}
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": marks})
        await cluster.gone("win-1")
        await cluster.delete(EGRESS_PROXIES, "cluster")
        for _ in range(20):
            if not left_over():
                break
            await asyncio.sleep(0.5)
    assert left_over() == {}
