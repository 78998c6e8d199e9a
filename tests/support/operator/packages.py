"""An install of Transom: what was applied, what the Deployments describe running here with their tokens, and what is left."""

import asyncio
import contextlib
import json
import os
import sys
import urllib.error
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from lab.control_plane import ControlPlane
from lab.kubernetes import ControlPlaneError
from lab.ports import reserve
from lab.releases import Wheel
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.programs import Program
from tests.support.pages import on_cluster
from tests.support.repository import ROOT
from tests.support.waiting import until

from lab import build
from transom.manifests.definitions import build_crds
from winsim import Host

OWN = "transom-system"
DEFINITIONS = ("egressproxies.transom.dev", "windowsinstances.transom.dev")
LABEL = "app.kubernetes.io/name=transom"
RBAC, ADMISSION = "/apis/rbac.authorization.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
CLUSTER_SCOPED = (
    f"{RBAC}/clusterroles",
    f"{RBAC}/clusterrolebindings",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    f"{ADMISSION}/validatingadmissionpolicies",
    f"{ADMISSION}/validatingadmissionpolicybindings",
    f"{ADMISSION}/mutatingwebhookconfigurations",
    "/api/v1/namespaces",
)


class Installed:
    """An install in its namespace, with one simulated host and what runs."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, home: Path) -> None:
        self.plane, self.cluster, self._home = plane, cluster, home
        cluster.namespace = OWN

    async def kubectl(self, *arguments: str) -> str:
        return await asyncio.to_thread(self.plane.run_kubectl, *arguments)

    async def run(self, lines: str) -> str:
        """Lines of the page, in a directory that has what a clone has."""
        for name in ("charts", "kustomize"):
            if not (self._home / name).exists():
                (self._home / name).symlink_to(ROOT / name)
        programs = (Path(sys.executable).parent, self.plane.programs, build.build_program(build.HELM).parent)
        return await on_cluster(self._home, self.plane, lines, PATH=os.pathsep.join((*map(str, programs), os.defpath)))

    async def established(self) -> None:
        """Until the definitions can be used, and deleted."""
        await self.kubectl(
            "wait", "--for=condition=Established", "--timeout=180s", *(f"crd/{definition}" for definition in DEFINITIONS)
        )
        await asyncio.to_thread(self.plane.wait_readable, build_crds())

    async def deployment(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.kubectl("get", "deployment", name, "-n", OWN, "-o", "json"))
        return found

    async def program(self, name: str, wheel: Wheel | None = None, **more: str) -> Program:
        """What the Deployment describes, of this tree or of another wheel."""
        pod = (await self.deployment(name))["spec"]["template"]["spec"]
        token = await asyncio.to_thread(self.plane.create_service_account_token, OWN, pod["serviceAccountName"])
        command, *arguments = pod["containers"][0]["args"]
        options = dict(argument.removeprefix("--").split("=", 1) for argument in arguments)
        del options["bind-address"]
        called = f"{name}-{wheel.version}" if wheel else name
        kubeconfig = self.plane.write_kubeconfig(name, token)
        return Program(self.cluster, called, kubeconfig, command=command, wheel=wheel, **options | more)

    async def webhook(self, wheel: Wheel | None = None) -> Program:
        """The admission server, registered by its URL."""
        port = reserve()
        addresses = {
            "bind-address": f"127.0.0.1:{port}",
            "url": f"https://127.0.0.1:{port}",
            "metrics-bind-address": f"127.0.0.1:{reserve()}",
        }
        return await self.program("transom-webhook", wheel, **addresses)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Both Deployments."""
        async with self.operator(), await self.webhook():
            yield

    @contextlib.asynccontextmanager
    async def operator(self) -> AsyncIterator[Program]:
        async with await self.program("transom") as program:
            yield program

    async def configured(self) -> Host:
        """A host that has the settings."""
        await self.established()
        host = await self.cluster.simulator.add_host()
        await self.cluster.put_key()
        await self.cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
        await self.cluster.instance("win-1", host)
        await self.works(host)
        return host

    async def works(self, host: Host) -> None:
        await self.cluster.until("win-1", ProxyApplied="True/Applied", Ready="True")
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")

    async def until_pods_start(self, *, injected: bool, proxy: str = PROXY) -> None:
        """Until a pod starts, with this proxy or without any variable of ours."""
        metadata = {"name": "probe", "namespace": "default"}
        containers = [{"name": "a", "image": "registry.corp.example/a:1"}]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}

        async def started() -> bool:
            try:
                made = json.loads(await self._request("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod))
            except urllib.error.HTTPError:
                return False
            given = made["spec"]["containers"][0].get("env", [])
            return proxy in json.dumps(given) if injected else not given

        await until(started)

    async def _request(self, *request: Any) -> bytes:
        """As the administrator; kubectl is 0.1 s of CPU, and what is waited for is asked for often."""
        return await asyncio.to_thread(self.plane.request, *request)

    async def left(self) -> set[str]:
        """What there is of Transom that belongs to no namespace."""
        found = set()
        for path in CLUSTER_SCOPED:
            plural = path.rpartition("/")[2]
            # the admission server registers itself, with no label
            label = "" if plural == "mutatingwebhookconfigurations" else f"?labelSelector={LABEL.replace('=', '%3D')}"
            listed = json.loads(await self._request("GET", path + label))["items"]
            found |= {f"{plural}/{item['metadata']['name']}" for item in listed}
        return found

    async def until_gone(self) -> None:
        """Until nothing is left. Where something stays, its status or the controllers say why."""

        async def is_gone() -> bool:
            return await self.left() == set()

        try:
            await until(is_gone)
        except AssertionError as error:
            left = [await self.kubectl("get", item, "-o", "yaml") for item in sorted(await self.left())]
            raise AssertionError("\n".join((str(error), *left, self.plane.read_log("kube-controller-manager")))) from None

    async def remove(self) -> None:
        """Everything, whatever came of the test: no operator gives hosts back here."""
        for kind, where in (("windowsinstances", ("-n", OWN)), ("egressproxies", ())):
            with contextlib.suppress(ControlPlaneError):
                for part in (await self.kubectl("get", kind, *where, "-o", "name")).split():
                    await self.kubectl("patch", part, *where, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        kinds = ",".join(path.rpartition("/")[2] for path in CLUSTER_SCOPED)
        await self.kubectl("delete", kinds, "-l", LABEL, "--ignore-not-found", "--timeout=180s")
        await self.kubectl("delete", "mutatingwebhookconfiguration", "transom", "--ignore-not-found")
        await self.kubectl("delete", "namespace", OWN, "--ignore-not-found", "--timeout=180s")
