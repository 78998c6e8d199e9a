"""The part of the kubelets of simulated hosts: Nodes that say how they are, pods that end when they are told to."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from tests.support.operator.clusters import QUICK, Cluster

from transom.controllers.runtime.cached_objects import FIRST
from transom.kube.errors import ConnectionFailed, NotFound, StatusError
from transom.kube.objects import UnstructuredObject
from transom.kube.reflector import Reflector
from transom.kube.resources import NODES, Resource
from transom.kube.store import Store
from winsim import Host

PODS = Resource("", "v1", "Pod", "pods", True, UnstructuredObject)
BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, UnstructuredObject)
WHOLE_NODES = Resource("", "v1", "Node", "nodes", False, UnstructuredObject)


class Kubelets:
    """Those of some hosts. What was seen of cordoned nodes: the most at once, in which order, and how often each was."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._hosts: dict[str, Host] = {}
        self._starts: dict[str, int] = {}
        self.most_away = 0
        self.order: list[str] = []
        self.cordons: Counter[str] = Counter()
        self._away: set[str] = set()
        self._last = datetime.now(UTC)
        self._nodes: Store[UnstructuredObject] = Store()
        self._pods: Store[UnstructuredObject] = Store()
        self.silent: set[str] = set()
        """Nodes whose kubelets say nothing when they are started."""

    async def join(self, host: Host, **annotations: str) -> str:
        """The Node of a host, Ready."""
        name = host.name.lower()
        await self._cluster.put(NODES, name, metadata={"name": name, "annotations": annotations})
        self._starts[name] = len(host.starts("kubelet"))
        self._hosts[name] = host
        await self.beat(name)
        return name

    async def beat(self, name: str, ready: str = "True") -> None:
        """A Node says how it is."""
        # a kubelet that is started takes seconds until its first report, and reports whole seconds
        self._last = max(datetime.now(UTC), self._last + timedelta(seconds=1))
        now = self._last.strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": "KubeletReady",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        addresses = [{"type": "InternalIP", "address": self._hosts[name].address}] if name in self._hosts else []
        info = {"operatingSystem": "windows", "kubeletVersion": "v1.36.3"}
        status = {"conditions": [condition], "nodeInfo": info, "addresses": addresses}
        await self._cluster.merge(NODES, name, {"status": status}, "status")

    async def pod(self, name: str, node: str, owner: str = "", **labels: str) -> None:
        """A pod that runs on a node; `owner` is the kind of its controller."""
        owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "web", "uid": "u-1", "controller": True}] if owner else []
        metadata = {"name": name, "namespace": self._cluster.namespace, "labels": labels, "ownerReferences": owners}
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "registry.corp.example/c"}]}
        await self._cluster.put(PODS, name, metadata=metadata, spec=spec)
        ready = [{"type": "Ready", "status": "True"}]
        await self._cluster.merge(PODS, name, {"status": {"phase": "Running", "conditions": ready}}, "status")

    async def budget(self, allowed: int) -> None:
        """A PodDisruptionBudget for pods labelled `app: web`, and what its controller says of it."""
        await self._cluster.put(BUDGETS, "web", spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}})
        generation = (await self._cluster.client.get(BUDGETS, "web", self._cluster.namespace)).metadata.generation
        counts = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        condition = {"type": "DisruptionAllowed", "status": "True" if allowed else "False", "reason": "InsufficientPods"}
        condition |= {"message": "", "lastTransitionTime": "2026-11-21T10:00:00Z"}
        status = {**counts, "observedGeneration": generation, "conditions": [condition]}
        await self._cluster.merge(BUDGETS, "web", {"status": status}, "status")

    async def node(self, name: str) -> dict[str, Any]:
        """A Node as it is."""
        return (await self._cluster.client.get(WHOLE_NODES, name)).value

    async def pods(self) -> set[str]:
        """The pods that there are."""
        return {item.metadata.name for item in (await self._cluster.client.list_objects(PODS, self._cluster.namespace)).items}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Until the end of the block they work."""
        client = self._cluster.client
        nodes = Reflector(client, WHOLE_NODES, self._nodes, timings=QUICK)
        pods = Reflector(client, PODS, self._pods, namespace=self._cluster.namespace, timings=QUICK)
        working = [asyncio.create_task(item) for item in (nodes.run(), pods.run(), self._work())]
        try:
            yield
        finally:
            for entry in working:
                entry.cancel()
            for ended in await asyncio.gather(*working, return_exceptions=True):
                if isinstance(ended, Exception):
                    raise ended

    async def _work(self) -> None:
        while True:
            try:
                await self._round()
            except ConnectionFailed:
                # on a machine that stands still an answer may not come in time: a kubelet asks again
                pass
            except StatusError as error:
                if error.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise
            await asyncio.sleep(0.05)

    async def _round(self) -> None:
        self._look()
        for pod in self._pods.take_snapshot():
            if pod.metadata.deletion_timestamp is not None and pod.value["spec"].get("nodeName") in self._hosts:
                path = PODS.build_path(self._cluster.namespace, pod.metadata.name)
                with contextlib.suppress(NotFound):
                    await self._cluster.client.request("DELETE", path, None, {"gracePeriodSeconds": 0})
        for name, host in self._hosts.items():
            service = host.services.find("kubelet")
            starts = len(service.starts) if service is not None else self._starts[name]
            if starts != self._starts[name] and name not in self.silent:
                await self.beat(name)
                self._starts[name] = starts

    def _look(self) -> None:
        # what has taken no pods yet is not away
        away = [
            item.metadata.name
            for item in self._nodes.take_snapshot()
            if item.metadata.name in self._hosts
            and item.value["spec"].get("unschedulable")
            and item.value["metadata"].get("annotations", {}).get(FIRST) != "Cordoned"
        ]
        self.most_away = max(self.most_away, len(away))
        self.order += [name for name in away if name not in self.order]
        self.cordons.update(set(away) - self._away)
        self._away = set(away)
