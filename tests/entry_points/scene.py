"""A real API server with an operator and an admission server as processes, and neighbours of whoever attacks them."""

import asyncio
import itertools
import resource
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from lab.control_plane import ControlPlane, Moment
from lab.ports import reserve
from tests.entry_points.entry_point import MIB
from tests.hosts.hostile import HostileSimulator
from tests.hosts.lying_servers import run_servers
from tests.support.event_loop import read_memory
from tests.support.management.manifests import credentials
from tests.support.operator.clusters import Cluster, admin, environment
from tests.support.operator.programs import Program
from tests.support.operator.replicas import leads, replica
from tests.support.waiting import until
from tests.webhook.clusters import plain_pod

from transom.kube.resources import LEASES, NAMESPACES, PODS
from transom.kube.transport import Request
from transom.manifests.admission import iter_admission_roles
from winsim import Host

TENANT: Final = "tenant"
"""The namespace of those who attack."""
NEIGHBOUR: Final = "neighbour"
LIMITS: Final[Mapping[str, int]] = {"operator": 384 * MIB, "webhook": 192 * MIB}
"""The limits of the pods' memory (`transom.manifests.workloads`)."""
_FILES: Final = 400
"""Files that each program may have open."""
_FAULTS: Final = ("lease not renewed", "lease lost", "fault of Transom", "Traceback", "Too many open files")


@dataclass(frozen=True)
class HeldLease:
    """What a replica wrote into the operator's lease."""

    holder: str | None
    transitions: int
    renewed: str | None


class Scene:
    """What attacks have before them, and whom they must not harm."""

    def __init__(self, cluster: Cluster, programs: Mapping[str, Program], servers: Mapping[str, int], admission: str) -> None:
        self.cluster, self.programs, self.servers = cluster, programs, servers
        self.admission = admission
        """The address of the admission server."""
        self.honest: Host
        self._turns = itertools.count(1)

    @property
    def port(self) -> int:
        """The operator's port of metrics and probes."""
        return self.programs["operator"].port

    async def prepare(self) -> None:
        """Wait until the neighbours are served for the first time."""
        self.honest = await self.cluster.simulator.add_host()
        await self.cluster.instance("honest", self.honest)
        await self._set_proxy()
        await leads(self.cluster, self.programs["operator"])
        await until(lambda: self._has_settings("wait"))
        await self.cluster.until("honest", Configured="True", ProxyApplied="True/Applied")

    async def serve_neighbours(self) -> None:
        """Change the proxy: the honest host gets it, a pod that somebody creates has its settings, a probe is answered."""
        proxy = await self._set_proxy()
        assert await self._has_settings("pod")
        await self.probe()
        await until(lambda: any(proxy in item for item in environment(self.honest, "kubelet")))

    async def probe(self) -> None:
        """Ask what a kubelet and Prometheus ask the operator."""
        for path in ("/healthz", "/metrics"):
            code, _ = await self.programs["operator"].get(path)
            assert code == 200

    async def _set_proxy(self) -> str:
        name = f"proxy-{next(self._turns)}.corp.example"
        url = f"http://{name}:3128"
        await self.cluster.proxy(
            httpProxy=url,
            httpsProxy=url,
            credentialsSecret={"name": "egress-credentials"},
            clusterSelector={},
            propagate=True,
            pods={"namespaceSelector": {}},
        )
        return name

    async def _has_settings(self, name: str) -> bool:
        code, pod = await self.post_pod(plain_pod(name), NEIGHBOUR)
        assert code == 201
        return any(item["name"] == "HTTPS_PROXY" for item in pod["spec"]["containers"][0].get("env", ()))

    async def post_pod(self, pod: Any, namespace: str) -> tuple[int, Any]:
        """Create a pod that is not kept: the code, and what the API server answers."""
        transport = self.cluster.client.connection.transport
        body = await asyncio.to_thread(msgspec.json.encode, pod)
        asked = Request("POST", PODS.build_path(namespace), {"dryRun": "All"}, body, "application/json")
        answer = await transport.request(asked)
        return answer.status, msgspec.json.decode(answer.body)

    async def read_lease(self) -> HeldLease:
        """Return what the operator's lease says."""
        spec = (await self.cluster.client.get(LEASES, "transom", self.cluster.namespace)).spec
        assert spec is not None
        return HeldLease(spec.holder_identity, spec.lease_transitions or 0, str(spec.renew_time))

    def read_memory(self) -> dict[str, int]:
        """Return the resident memory of each program."""
        return {name: read_memory("VmRSS", program.process.pid) for name, program in self.programs.items()}

    def list_faults(self) -> list[str]:
        """Return the lines of logs that no attack may cause, and the programs that used more than their pods may."""
        lines = [line for program in self.programs.values() for line in program.log().splitlines()]
        large = [
            f"{name} used {peak / MIB:.0f} MiB"
            for name, program in self.programs.items()
            if (peak := read_memory("VmHWM", program.process.pid)) > LIMITS[name]
        ]
        return [line for line in lines if any(word in line for word in _FAULTS)] + large

    def list_odd_requests(self, since: Moment) -> list[str]:
        """Return the paths that a program requested and that lead elsewhere than they seem to."""
        users = {f"system:serviceaccount:{self.cluster.namespace}:{name}" for name in self.programs}
        asked = (entry for entry in self.cluster.control_plane.read_audit(since) if entry["user"]["username"] in users)
        return [entry["requestURI"] for entry in asked if ".." in entry["requestURI"].replace("%2e", ".").replace("%2E", ".")]


@asynccontextmanager
async def open_scene(plane: ControlPlane, names: tuple[str, ...]) -> AsyncIterator[Scene]:
    """Run all of it, with SSH servers of these names that lie."""
    async with HostileSimulator() as simulator, admin(plane) as client:
        cluster = Cluster(plane, client, simulator)
        await cluster.prepare()
        for namespace in (TENANT, NEIGHBOUR):
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        await asyncio.to_thread(
            plane.apply, [credentials(namespace=cluster.namespace), *iter_admission_roles(cluster.namespace)]
        )
        operator = await replica(cluster, "operator", **{"login-timeout": "10s", "channel-timeout": "10s"})
        address, metrics = (f"127.0.0.1:{reserve()}" for _ in range(2))
        options = {"url": f"https://{address}", "bind-address": address, "metrics-bind-address": metrics}
        webhook = await replica(cluster, "webhook", command="webhook", **options)
        with run_servers(*names) as servers:
            async with operator, webhook:
                scene = Scene(cluster, {"operator": operator, "webhook": webhook}, servers, address)
                await scene.prepare()
                # a container may have 1,024: fewer need fewer strangers
                for program in scene.programs.values():
                    resource.prlimit(program.process.pid, resource.RLIMIT_NOFILE, (_FILES, _FILES))
                yield scene
