"""An upgrade beside a real disruption controller: what a PodDisruptionBudget says is what its controller counted."""

import asyncio
from pathlib import Path

import pytest
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import Cluster, admin
from tests.support.operator.kubelets import BUDGETS, Kubelets
from tests.support.operator.nodes import SUBNET, bare, published
from tests.support.operator.upgrades import MARKS, NETWORKS, QUICK, upgraded
from tests.support.waiting import until
from tests.support.workers.payloads import TEXT, write

from transom.manifests.definitions import build_crds
from winsim import Simulator

pytestmark = pytest.mark.lab


async def test_a_budget_allows_when_another_pod_is_ready(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Two pods, of which two must be there: the drain waits and says for what. A third one elsewhere: it goes on."""
    await asyncio.to_thread(control_plane.define, build_crds())
    newer = write(tmp_path / "newer", TEXT.replace("1.36.3-1", "1.36.3-2"), sizes=4000)
    async with Simulator() as simulator, admin(control_plane) as client:
        cluster = Cluster(control_plane, client, simulator)
        kubelets = Kubelets(cluster)
        await cluster.prepare()
        await published(cluster)
        await cluster.proxy(networks=NETWORKS)
        host = await bare(cluster, "win")
        async with kubelets.running():
            async with cluster.operator(payload=write(tmp_path / "payload"), pace=QUICK):
                await cluster.instance("win-0", host, lifecycle="Node")
                await cluster.until("win-0", NodeReady="False/Registering")
                name = await kubelets.join(host, **SUBNET)
                await cluster.until("win-0", NodeReady="True", Configured="True/UpToDate")
            await kubelets.pod("web-0", name, app="web")
            await kubelets.pod("web-1", "elsewhere", app="web")
            await cluster.put(BUDGETS, "web", spec={"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}})
            async with cluster.operator(payload=newer, pace=QUICK):
                await until(lambda: len(kubelets.order) == 1)
                await cluster.says("win-0", "web needs 2 healthy pods and has 2 currently", f"{cluster.namespace}/web-0")
                await kubelets.pod("web-2", "elsewhere", app="web")
                await upgraded(cluster, "win-0")
            assert await kubelets.pods() == {"web-1", "web-2"}
            assert not (await kubelets.node(name))["metadata"]["annotations"].keys() & set(MARKS)
        await cluster.leave()
        for pod in ("web-1", "web-2"):
            control_plane.request("DELETE", f"/api/v1/namespaces/{cluster.namespace}/pods/{pod}", {"gracePeriodSeconds": 0})
