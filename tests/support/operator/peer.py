"""The Windows Machine Config Operator, by what it leaves in a cluster and on a host."""

import asyncio
import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.command import Ran, run
from tests.support.operator.bundles import ROOT_1, ROOT_2
from tests.support.operator.clusters import Cluster

from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, SECRETS, Resource
from transom.proxy.trust import parse_bundle
from transom.windows.host.queries import ENVIRONMENT, SERVICES
from transom.windows.parts import certificates
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_sz
from winsim import Host

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", True, UnstructuredObject)
WMCO = "windowsmachineconfig.openshift.io"
(IMPORTED,) = parse_bundle(ROOT_1).certificates
(BEFORE,) = parse_bundle(ROOT_2).certificates
TABLE = json.loads((Path(__file__).parents[2] / "windows" / "payload" / "peer.json").read_text())
"""What its sources say of a host, at the commit that stands there."""
DAEMON = "windows-instance-config-daemon"
STORE = certificates.get_store_path(certificates.ROOT)


class Peer:
    """The Windows Machine Config Operator, by what it leaves in a cluster and on a host."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.namespace = cluster, f"wmco-{cluster.namespace}"

    async def put(self, resource: Resource[Any], name: str, **fields: Any) -> None:
        metadata = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
        await self.cluster.client.apply(resource, metadata | fields, name, self.namespace)

    async def install(
        self, variables: dict[str, str], address: str = "127.0.0.1", services: tuple[str, ...] = ("containerd", "kubelet")
    ) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await self.cluster.client.create(NAMESPACES, namespace)
        key = self.cluster.simulator.client_key.export_private_key()
        await self.put(SECRETS, "cloud-private-key", data={"private-key.pem": base64.b64encode(key).decode()})
        await self.put(CONFIG_MAPS, "windows-instances", data={address: "username=Administrator"})
        services = json.dumps([{"name": name} for name in services])
        data = {"services": services, "files": "[]", "environmentVars": json.dumps(variables)}
        await self.put(CONFIG_MAPS, "windows-services-10.19.0", data=data)
        await self.scale(1)

    async def scale(self, replicas: int) -> None:
        labels = {"name": "windows-machine-config-operator"}
        container = {"name": "manager", "image": "registry.corp.example/wmco"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self.put(DEPLOYMENTS, "windows-machine-config-operator", spec=spec)

    async def join(self, host: Host, variables: dict[str, str], name: str = "") -> str:
        """A node: the machine's environment has the proxy, the CA was imported, and the host has booted with both."""
        name = name or f"byoh-{self.cluster.namespace}"
        host.edit(SetValue(ENVIRONMENT, variable, build_sz(value)) for variable, value in variables.items())
        stored = [(item.sha1, certificates.build_blob(item.der, item.sha1)) for item in (IMPORTED, BEFORE)]
        host.edit(SetValue(rf"{STORE}\{sha1}", "Blob", blob) for sha1, blob in stored)
        host.files.write(r"C:\k\imported-certs.pem", ROOT_1.encode())
        await host.boot()
        annotations = {f"{WMCO}/version": "10.19.0", f"{WMCO}/desired-version": "10.19.0"}
        labels = {"node.openshift.io/os_id": "Windows", f"{WMCO}/byoh": "true"}
        await self.cluster.put(NODES, name, metadata={"name": name, "annotations": annotations, "labels": labels})
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        status = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "conditions": [ready]}
        status["nodeInfo"] = {"operatingSystem": "windows", "kubeletVersion": "v1.36.3"}
        await self.cluster.merge(NODES, name, {"status": status}, "status")
        return name


async def adopt(peer: Peer, *more: str) -> Ran:
    arguments = (
        "--from",
        "wmco",
        "--namespace",
        peer.cluster.namespace,
        "--peer-namespace",
        peer.namespace,
        "--context",
        "lab",
        *more,
    )
    return await asyncio.to_thread(run, "adopt", *arguments)


def as_made(host: Host, values: Mapping[str, str]) -> dict[str, str]:
    """Its services on a host, with their programs, and its daemon: their commands. `values` are what it puts into them.

    They start at the next boot.
    """
    programs = {file["path"].rpartition("\\")[2].removesuffix(".exe"): file["path"] for file in TABLE["files"]}
    for path in programs.values():
        host.files.make_directories(path.rpartition("\\")[0])
        host.files.write(path, b"MZservice of the peer " + path.encode())
    daemon = rf"C:\k\{DAEMON}.exe"
    host.files.write(daemon, b"MZservice of the peer")
    made = {DAEMON: f"{daemon} controller --windows-service"}
    depends: dict[str, tuple[str, ...]] = {}
    for service in TABLE["services"]:
        if (program := programs.get(service["name"])) is not None:
            told = (None, "not debug", "len ( vxlanPort ) > 0", 'hostnameOverrideCmd ! = ""')
            flags = [flag for flag in service["flags"] if flag.get("when") in told]
            words = [f"{flag['flag']}={values.get(flag['value'], flag['value'])}".rstrip("=") for flag in flags]
            made[service["name"]] = " ".join([program, *words])
            depends[service["name"]] = tuple(service["dependencies"])
    for name, command in made.items():
        host.services.create(name, command, depends=depends.get(name, ()), start_type=2)
        # by this the operator knows its own services (pkg/windows/windows.go, ManagedTag)
        host.edit([SetValue(rf"{SERVICES}\{name}", "Description", build_sz(f"OpenShift managed {name}"))])
    return made
