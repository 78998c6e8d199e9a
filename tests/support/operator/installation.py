"""Transom as people install it: its manifests applied by kubectl, and its process with the rights that they give it."""

import asyncio
import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from lab.control_plane import ControlPlane
from lab.machine import Machine
from tests.support.operator.programs import Program
from tests.support.process import run
from tests.support.waiting import PATIENCE, until

from transom.windows.host.queries import SERVICES
from transom.windows.registry import reg

STORE = r"HKLM\SOFTWARE\Microsoft\SystemCertificates\ROOT\Certificates"
SERVICE = "recorder-a"


class Installation:
    """Transom in the namespace of its manifests, installed and looked at by kubectl, as an administrator does.

    What only has to be there, and what is asked for again and again, are requests: a start of kubectl is 0.07 s of CPU, an
    `apply` 0.2.
    """

    namespace = "transom-system"
    instances = f"/apis/transom.dev/v1alpha1/namespaces/{namespace}/windowsinstances"

    def __init__(self, control_plane: ControlPlane) -> None:
        self.control_plane = control_plane
        self._manifests = run("manifests").stdout
        self._cluster_scoped: list[str] = []

    async def kubectl(self, *arguments: str, input: str | None = None) -> str:
        return await asyncio.to_thread(self.control_plane.run_kubectl, *arguments, input=input)

    async def install(self) -> None:
        """`transom manifests | kubectl apply -f -`, the machine's key, and nothing else."""
        await self.kubectl("apply", "-f", "-", input=self._manifests)
        ready = ("wait", "--for=condition=Established", "--timeout=180s", "crd", "-l", "app.kubernetes.io/name=transom")
        await self.kubectl(*ready)

    def program(self, **more: str) -> Program:
        """The process that the Deployment describes, with the token of its ServiceAccount."""
        objects = [item for item in yaml.load_all(self._manifests, yaml.CSafeLoader) if item]
        deployment = next(obj for obj in objects if obj["kind"] == "Deployment")
        pod = deployment["spec"]["template"]["spec"]
        token = self.control_plane.create_service_account_token(self.namespace, pod["serviceAccountName"])
        kubeconfig = self.control_plane.write_kubeconfig("installed", token)
        arguments = pod["containers"][0]["args"][1:]
        options = dict(argument.removeprefix("--").split("=", 1) for argument in arguments)
        del options["bind-address"]
        return Program(self, "installed", kubeconfig, **{**options, **more})

    async def apply(self, *objects: dict[str, Any]) -> None:
        await asyncio.to_thread(self.control_plane.apply, objects)

    async def get(self, path: str) -> Any:
        """What is at that path of the API server."""
        return json.loads(await asyncio.to_thread(self.control_plane.request, "GET", path))

    async def key(self, path: Path) -> None:
        data = {"private-key.pem": base64.b64encode(path.read_bytes()).decode()}
        metadata = {"name": "cloud-private-key", "namespace": self.namespace}
        await self.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})

    async def bundle(self, pem: str, namespace: str = namespace) -> None:
        metadata = {"name": "corp-ca", "namespace": namespace}
        await self.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ca-bundle.crt": pem}})

    async def proxy(self, **spec: Any) -> None:
        """`spec` is the whole of it: what was there before and is not in it goes."""
        spec = {"windows": {"services": [SERVICE]}, **spec}
        await self.apply(
            {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": "cluster"}, "spec": spec}
        )

    async def instance(self, machine: Machine, name: str = "win-1", **spec: Any) -> None:
        place = {"address": machine.place.address, "port": machine.place.port, "username": machine.ssh.user}
        metadata = {"name": name, "namespace": self.namespace}
        kind = {"apiVersion": "transom.dev/v1alpha1", "kind": "WindowsInstance"}
        await self.apply({**kind, "metadata": metadata, "spec": {**place, "hostKey": machine.ssh.host_key, **spec}})

    async def row(self, name: str = "win-1") -> dict[str, str]:
        """What `kubectl get windowsinstances` shows of one."""
        shown = await self.kubectl("get", "windowsinstances", "-n", self.namespace, name)
        heads, values = shown.splitlines()
        starts = [heads.index(head) for head in heads.split()]
        ends = [*starts[1:], None]
        return {heads[a:b].strip(): values[a:b].strip() for a, b in zip(starts, ends, strict=True)}

    async def until_row(self, name: str = "win-1", **wanted: str) -> dict[str, str]:
        """Wait until columns hold these values."""
        row: dict[str, str] = {}
        seen = ""

        async def shows() -> bool:
            nonlocal row, seen
            version = (await self.get(f"{self.instances}/{name}"))["metadata"]["resourceVersion"]
            if version == seen:
                return False
            row, seen = await self.row(name), version
            return all(row[column.upper()] == value for column, value in wanted.items())

        try:
            await until(shows)
        except AssertionError:
            raise AssertionError(f"wanted {wanted}, found {row}: {await self.describe('windowsinstance', name)}") from None
        return row

    async def describe(self, kind: str, name: str) -> str:
        return await self.kubectl("describe", kind, name, "-n", self.namespace)

    async def told(self, kind: str, name: str, *texts: str) -> str:
        """What `kubectl describe` shows once each of these stands among the events, which follow a status at their own time."""
        said, seen = "", set[str]()

        async def shows() -> bool:
            nonlocal said, seen
            listed = (await self.get("/api/v1/events?fieldSelector=involvedObject.name%3D" + name))["items"]
            versions = {item["metadata"]["resourceVersion"] for item in listed}
            if versions == seen:
                return False
            said, seen = await self.describe(kind, name), versions
            return all(text in said.partition("Events:")[2] for text in texts)

        try:
            await until(shows)
        except AssertionError:
            raise AssertionError(f"{texts} were not told, but {said}") from None
        return said

    async def remove(self) -> None:
        """Everything again, as an administrator would; namespaces need a controller that is not there."""
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        ask = self.control_plane.request
        for kind in ("/apis/transom.dev/v1alpha1/egressproxies", self.instances):
            # no operator gives hosts back here
            for item in json.loads(ask("GET", kind))["items"]:
                path = f"{kind}/{item['metadata']['name']}"
                ask("PATCH", path, {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json")
            ask("DELETE", kind)
        for kind in ("secrets", "configmaps"):
            ask("DELETE", f"/api/v1/namespaces/{self.namespace}/{kind}")


def environment(machine: Machine, service: str = SERVICE) -> tuple[str, ...]:
    """The items of a service's own environment, as the host's registry has them."""
    key = rf"{SERVICES}\{service}"
    text = machine.export(key)
    value = reg.parse_export(text.encode("utf-16")).find_value(key, "Environment") if text else None
    return value.to_texts() if value else ()


def roots(machine: Machine) -> str:
    """The host's store of trusted roots; thumbprints are in it."""
    return machine.export(STORE)


async def followed(condition: Callable[[], bool], seconds: float = PATIENCE) -> float:
    """Wait for something that is seen on the host; when it was, by `time.monotonic`."""
    await until(lambda: asyncio.to_thread(condition), seconds)
    return time.monotonic()
