"""A management cluster of a real API server: namespaces of its own for each test, and an operator in this process."""

import asyncio
import base64
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from lab.control_plane import ControlPlane, Moment
from tests.kube.hostile_kubeconfigs import ANY_NETWORK
from tests.support.management import manifests
from tests.support.operator.clusters import QUICK, at_work
from tests.support.waiting import PATIENCE, until

from transom.controllers.clusters.values_readers import APPS
from transom.controllers.operator import Operator, Options
from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, NAMESPACES, SECRETS, Resource

CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", True, UnstructuredObject)
TEMPLATES = Resource(
    "bootstrap.cluster.x-k8s.io", "v1beta2", "KubeadmConfigTemplate", "kubeadmconfigtemplates", True, UnstructuredObject
)
CONTROL_PLANES = Resource(
    "controlplane.cluster.x-k8s.io", "v1beta2", "KubeadmControlPlane", "kubeadmcontrolplanes", True, UnstructuredObject
)
DEPLOYMENTS = Resource("cluster.x-k8s.io", "v1beta2", "MachineDeployment", "machinedeployments", True, UnstructuredObject)
MACHINES = Resource("cluster.x-k8s.io", "v1beta2", "Machine", "machines", True, UnstructuredObject)
POOLS = Resource("cluster.x-k8s.io", "v1beta2", "MachinePool", "machinepools", True, UnstructuredObject)
CONFIGS = Resource("bootstrap.cluster.x-k8s.io", "v1beta2", "KubeadmConfig", "kubeadmconfigs", True, UnstructuredObject)
RELEASES = Resource("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases", True, UnstructuredObject)
WHOLE_APPS = Resource(APPS.group, APPS.version, APPS.kind, APPS.plural, True, UnstructuredObject)
_NUMBERS = itertools.count(1)


class Management:
    """What an administrator does and sees. `namespace` is Transom's own, `org` the Clusters'."""

    def __init__(self, control_plane: ControlPlane, client: Client) -> None:
        self.control_plane, self.client = control_plane, client
        number = next(_NUMBERS)
        self.namespace, self.org = f"transom-fleet-{number}", f"org-{number}"

    async def prepare(self) -> None:
        for name in (self.namespace, self.org):
            value = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await self.client.create(NAMESPACES, value)

    async def put(self, value: dict[str, Any], manager: str = "kubectl") -> None:
        """Server-side apply, as somebody else."""
        resource = _RESOURCES[value["kind"]]
        meta = value["metadata"]
        path = resource.build_path(meta.get("namespace"), meta["name"])
        query = {"fieldManager": manager, "force": "true"}
        value = value | {"apiVersion": resource.api_version}
        await self.client.request("PATCH", path, query, value, content_type="application/apply-patch+yaml")

    async def merge(self, kind: str, name: str, value: dict[str, Any], namespace: str | None = None) -> None:
        path = _RESOURCES[kind].build_path(namespace, name)
        await self.client.request("PATCH", path, None, value, content_type="application/merge-patch+json")

    async def settings(self, password: str = manifests.PASSWORD, **more: Any) -> None:
        await self.put(manifests.credentials(password, self.namespace))
        await self.put(manifests.base(**more))

    async def cluster(self, name: str = "mycluster", **more: Any) -> None:
        await self.put(manifests.cluster(name, self.org, "v1beta2", **more))

    async def bundle(self, pem: str) -> None:
        metadata = {"name": "corp-ca", "namespace": self.namespace}
        await self.put({"kind": "ConfigMap", "metadata": metadata, "data": {"ca-bundle.crt": pem}})

    async def get(self, kind: str, name: str, namespace: str | None = None) -> dict[str, Any] | None:
        try:
            return (await self.client.get(_RESOURCES[kind], name, namespace or self.org)).value
        except NotFound:
            return None

    async def data(self, kind: str, name: str) -> dict[str, str] | None:
        """The data of an object of the Clusters' namespace, decoded; None where it is not there."""
        held = await self.get(kind, name)
        if held is None:
            return None
        values: dict[str, str] = held.get("data") or {}
        return {key: base64.b64decode(text).decode() for key, text in values.items()} if kind == "Secret" else values

    async def objects(self) -> set[tuple[str, str]]:
        """Kind and name of all ConfigMaps and Secrets in the Clusters' namespace."""
        found = set()
        for resource in (CONFIG_MAPS, SECRETS):
            held = await self.client.list_objects(resource, self.org)
            found |= {(resource.kind, item.metadata.name) for item in held.items}
        return found

    async def conditions(self, name: str = "cluster") -> dict[str, tuple[str, str, str]]:
        held = (await self.client.get(EGRESS_PROXIES, name)).value.get("status") or {}
        return {
            condition["type"]: (condition["status"], condition["reason"], condition["message"])
            for condition in held.get("conditions", ())
        }

    async def until(self, check: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Wait until an async question is answered by something true; the answer."""
        try:
            return await until(check, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; there are {sorted(await self.objects())}") from None

    async def until_objects(self, *wanted: tuple[str, str]) -> None:
        async def as_wanted() -> bool:
            return await self.objects() == set(wanted)

        await self.until(as_wanted)

    async def until_data(self, kind: str, name: str, key: str, part: str) -> str:
        async def has_part() -> str | None:
            text = (await self.data(kind, name) or {}).get(key, "")
            return text if part in text else None

        return str(await self.until(has_part))

    async def until_condition(self, type_: str, reason: str, name: str = "cluster") -> tuple[str, str, str]:
        async def has_reason() -> tuple[str, str, str] | None:
            found = (await self.conditions(name)).get(type_)
            return found if found is not None and found[1] == reason else None

        found: tuple[str, str, str] = await self.until(has_reason)
        return found

    async def settled(self, operator: Operator) -> None:
        """Wait until the fleet controller has had nothing to do for a moment."""
        queue, quiet = operator.controllers["clusters"].queue, 0
        async with asyncio.timeout(PATIENCE):
            while quiet < 15:
                await asyncio.sleep(0.1)
                quiet = 0 if len(queue) or queue.working else quiet + 1

    def writes(self, since: Moment | None = None) -> list[tuple[str, str, str]]:
        """Verb, resource and name of the requests by which Transom changed something in the Clusters' namespace."""
        found = []
        for entry in self.control_plane.read_audit(since):
            reference = entry.get("objectRef") or {}
            changed = entry["verb"] in ("create", "patch", "update", "delete") and entry["userAgent"] == "transom"
            if changed and reference.get("namespace") == self.org and "fieldManager=kubectl" not in entry["requestURI"]:
                name = reference.get("name") or json.dumps(entry.get("requestObject") or "")
                found.append((entry["verb"], reference["resource"], name))
        return found

    @contextlib.asynccontextmanager
    async def operator(self, client: Client | None = None, **options: Any) -> AsyncIterator[Operator]:
        """An operator in this process; a fault of its own fails the test."""
        options.setdefault("controllers", ("egress", "clusters"))
        options.setdefault("workload_cluster_networks", ANY_NETWORK)
        made = Options(namespace=self.namespace, reflector=QUICK, workers=8, **options)
        async with at_work(Operator(client or self.client, made)) as operator:
            yield operator


_RESOURCES: dict[str, Resource[UnstructuredObject]] = {
    "EgressProxy": EGRESS_PROXIES,
    "Cluster": CLUSTERS,
    "App": WHOLE_APPS,
    "HelmRelease": RELEASES,
    "KubeadmConfigTemplate": TEMPLATES,
    "KubeadmControlPlane": CONTROL_PLANES,
    "MachineDeployment": DEPLOYMENTS,
    "Machine": MACHINES,
    "MachinePool": POOLS,
    "KubeadmConfig": CONFIGS,
    "ConfigMap": CONFIG_MAPS,
    "Secret": SECRETS,
}
