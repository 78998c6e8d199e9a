"""Pods on real kubelets: a payload on which they become Ready, and what people have on nodes that are to be upgraded."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml
from lab.control_plane import ControlPlane
from lab.process import Process
from tests.support.operator.installation import Installation

from lab import build, kubernetes, payload

RUNNER = "kube-log-runner.exe"
"""The program of the kubelet's service, which starts kubelet.exe."""
RECORDER = "recorder.exe"
RECORDED = r"C:\k\logs\recorder.jsonl"
SERVICES = ("runtime", "kubelet", "recorder")
_STAY = ("agent-", "node-log-")
"""What the names of pods begin with that a drain leaves."""
VERSIONS = ("1.36.3-1", "1.36.3-2")
WITH_PODS = r"""
files:
- {path: 'C:\k\runtime.exe', source: runtime.exe, services: [runtime]}
- {path: 'C:\k\recorder.exe', source: recorder.exe, services: [recorder]}
- path: C:\k\static\node-log.yaml
  content: |
    apiVersion: v1
    kind: Pod
    metadata: {name: node-log, namespace: default}
    spec: {os: {name: windows}, containers: [{name: c, image: registry.corp.example/node-log}]}
services:
- {name: runtime, order: 1, command: 'C:\k\runtime.exe \\.\pipe\containerd-containerd C:\k\pods.json', egress: true}
- {name: recorder, order: 3, command: 'C:\k\recorder.exe recorder C:\k\logs\recorder.jsonl', dependsOn: [kubelet], egress: true}
"""


def with_pods(path: Path) -> Path:
    """The lab's payload with a runtime on which pods become Ready, without containerd.exe and kube-proxy.exe."""
    whole = payload.build_directory()
    path.mkdir()
    for file in (
        whole / "kubelet.exe",
        whole / RUNNER,
        build.build_program(build.RUNTIME),
        build.build_program(build.RECORDER),
    ):
        (path / file.name).symlink_to(file)
    made, more = yaml.safe_load((whole / "payload.yaml").read_text()), yaml.safe_load(WITH_PODS)
    made["files"] = [file for file in made["files"] if file.get("services") == ["kubelet"]] + more["files"]
    settings = next(file for file in made["files"] if file["path"] == r"C:\k\kubelet.yaml")
    settings["content"] += "staticPodPath: 'C:\\k\\static'\n"
    kubelet = next(service for service in made["services"] if service["name"] == "kubelet")
    made["services"] = [kubelet | {"dependsOn": ["runtime"]}, *more["services"]]
    del made["variables"]
    (path / "payload.yaml").write_text(yaml.safe_dump(made))
    return path


def raised(path: Path, former: Path) -> Path:
    """The same with another version and two other programs: they take bytes after their end."""
    path.mkdir()
    for file in former.iterdir():
        if file.name not in ("payload.yaml", RUNNER, RECORDER):
            (path / file.name).symlink_to(file.resolve())
    for name in (RUNNER, RECORDER):
        (path / name).write_bytes((former / name).read_bytes() + VERSIONS[1].encode())
    (path / "payload.yaml").write_text((former / "payload.yaml").read_text().replace(*VERSIONS))
    return path


def _pod(app: str, **more: Any) -> dict[str, Any]:
    """A pod for Windows nodes: what it is made of, without its name."""
    spec = {
        "os": {"name": "windows"},
        "nodeSelector": {"kubernetes.io/os": "windows"},
        # nobody takes the taint away that the API server gives to a new Node
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "containers": [{"name": "c", "image": f"registry.corp.example/{app}"}],
    }
    return {"metadata": {"labels": {"app": app}}, "spec": spec | more}


def _controlled(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": name}}
    value = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}
    return {**value, "spec": {"selector": selector, "template": _pod(name), **spec}}


def _budget(name: str, **spec: int) -> dict[str, Any]:
    value = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"}}
    return {**value, "spec": {"selector": {"matchLabels": {"app": name}}, **spec}}


class Workloads:
    """On each node a pod of Deployment `web`, one of DaemonSet `agent`, a static pod, and a bare one, `held-…`.

    Of `web` one may be away at a time; of the bare ones none, until `hold` says less. The lab has no kube-scheduler: pods are
    bound here.
    """

    def __init__(self, installed: Installation, nodes: tuple[str, ...], directory: Path) -> None:
        self._installed, self.nodes = installed, nodes
        self._log = directory / "nodes.log"

    @contextlib.asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        """All are Ready; at the end of the block what a drain leaves is the same, and `web` has all its pods again."""
        said = '{.metadata.name} {.spec.unschedulable} {.status.conditions[?(@.type=="Ready")].status}{"\\n"}'
        command = [kubernetes.build_binaries() / "kubectl", "--kubeconfig", self._installed.control_plane.kubeconfig]
        scheduling = asyncio.create_task(self._schedule())
        watch = Process([*command, "get", "nodes", "--watch", "-o", f"jsonpath={said}"], self._log)
        try:
            await self._come()
            stay = {name: uid for name, uid in (await self.pods()).items() if name.startswith(_STAY)}
            yield
            await self._wait(f"jsonpath={{.status.readyReplicas}}={len(self.nodes)}", "deployment/web")
            assert stay.items() <= (await self.pods()).items()
        finally:
            await self._installed.kubectl("delete", "deployments,daemonsets,pdb", "--all", "-n", "default")
            await self._installed.kubectl("delete", "pods", "--all", "-n", "default", "--force", "--grace-period=0")
            watch.stop()
            scheduling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await scheduling

    async def _come(self) -> None:
        count = len(self.nodes)
        bare = []
        for node in self.nodes:
            pod = _pod("held", nodeName=node)
            pod["metadata"] |= {"name": f"held-{node}", "namespace": "default"}
            bare.append({"apiVersion": "v1", "kind": "Pod", **pod})
        budgets = _budget("web", maxUnavailable=1), _budget("held", minAvailable=count)
        web, agent = _controlled("Deployment", "web", replicas=count), _controlled("DaemonSet", "agent")
        await self._installed.apply(web, agent, *bare, *budgets)
        for app in ("web", "held"):
            # the disruption controller has counted them
            await self._wait(f"jsonpath={{.status.currentHealthy}}={count}", f"pdb/{app}")
        await self._wait(f"jsonpath={{.status.numberReady}}={count}", "daemonset/agent")
        for node in self.nodes:
            await self._wait("create", f"pod/node-log-{node}")
            await self._wait("condition=Ready", f"pod/node-log-{node}")

    async def hold(self, count: int) -> None:
        """So many of the bare pods have to be there."""
        patch = json.dumps({"spec": {"minAvailable": count}})
        await self._installed.kubectl("patch", "pdb", "held", "-n", "default", "--type=merge", "-p", patch)

    async def pods(self) -> dict[str, str]:
        """The pods that are there, and their UIDs."""
        found = (await self._installed.get("/api/v1/namespaces/default/pods"))["items"]
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}

    def away(self) -> tuple[set[frozenset[str]], set[frozenset[str]]]:
        """The nodes that were cordoned together, and those that were not Ready together, by a watch: no change is missed."""
        cordoned, unready = set[str](), set[str]()
        seen: tuple[set[frozenset[str]], set[frozenset[str]]] = set(), set()
        for line in self._log.read_text().splitlines():
            name, unschedulable, ready = line.split(" ")
            (cordoned.add if unschedulable == "true" else cordoned.discard)(name)
            (unready.discard if ready == "True" else unready.add)(name)
            seen[0].add(frozenset(cordoned))
            seen[1].add(frozenset(unready))
        return seen

    async def _schedule(self) -> None:
        while True:
            await asyncio.to_thread(_bind, self._installed.control_plane)
            await asyncio.sleep(0.3)

    async def _wait(self, what: str, name: str) -> None:
        await self._installed.kubectl("wait", f"--for={what}", name, "-n", "default", "--timeout=180s")


def _bind(control_plane: ControlPlane) -> None:
    """Give each pod that has no node the one that its DaemonSet wants, or the one with the fewest of its kind."""
    pods = _listed(control_plane, "/api/v1/namespaces/default/pods")
    nodes = [
        item["metadata"]["name"] for item in _listed(control_plane, "/api/v1/nodes") if not item["spec"].get("unschedulable")
    ]
    of = Counter((pod["metadata"].get("labels", {}).get("app"), pod["spec"].get("nodeName")) for pod in pods)
    for pod in pods:
        if "nodeName" in pod["spec"] or "deletionTimestamp" in pod["metadata"] or not nodes:
            continue
        name, app = pod["metadata"]["name"], pod["metadata"]["labels"]["app"]
        if (affinity := pod["spec"].get("affinity")) is not None:
            terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            node = terms[0]["matchFields"][0]["values"][0]
        else:
            node = min(nodes, key=lambda node: of[app, node])
            of[app, node] += 1
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        control_plane.request("POST", f"/api/v1/namespaces/default/pods/{name}/binding", binding)


def _listed(control_plane: ControlPlane, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(control_plane.request("GET", path))["items"]
    return items
