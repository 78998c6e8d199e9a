"""Transom installed, upgraded and taken off by Helm, with kustomize and from a file of values, as docs/operator.md prints it.

The kubeconfig's namespace is `default`. What the Deployments describe runs here, with the tokens of its ServiceAccounts.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.control_plane import ControlPlane
from lab.kubernetes import ControlPlaneError
from lab.ports import reserve
from tests.support.operator.clusters import PROXY, Cluster, admin, environment
from tests.support.operator.programs import Program
from tests.support.pages import on_cluster, run_by
from tests.support.repository import ROOT
from tests.support.waiting import until
from tests.support.workers.hosts import everything_of

from lab import build
from transom.simulator import Host, Simulator
from transom.windows.host.queries import LEDGER

pytestmark = pytest.mark.lab
HERE = "tests/stories/installation/test_packages.py"
OWN = "transom-system"
DEFINITIONS = ("egressproxies.transom.dev", "windowsinstances.transom.dev")
LABEL = "app.kubernetes.io/name=transom"
CLUSTER_SCOPED = (
    "clusterroles,clusterrolebindings,customresourcedefinitions,priorityclasses,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,mutatingwebhookconfigurations,namespaces"
)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """With the controllers that collect what has lost its owner, and empty a namespace."""
    with ControlPlane(controllers=True) as running:
        yield running


class Installed:
    """An install in its namespace, with one simulated host and what runs."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, home: Path) -> None:
        self.plane, self.cluster, self._home = plane, cluster, home
        cluster.namespace = OWN

    async def kubectl(self, *arguments: str) -> str:
        return await asyncio.to_thread(self.plane.kubectl, *arguments)

    async def run(self, lines: str) -> str:
        """Lines of the page, in a directory that has what a clone has."""
        for name in ("charts", "kustomize"):
            if not (self._home / name).exists():
                (self._home / name).symlink_to(ROOT / name)
        programs = (Path(sys.executable).parent, self.plane.programs, build.program(build.HELM).parent)
        return await on_cluster(self._home, self.plane, lines, PATH=os.pathsep.join((*map(str, programs), os.defpath)))

    async def established(self) -> None:
        await self.kubectl("wait", "--for=condition=Established", "--timeout=180s", *(f"crd/{one}" for one in DEFINITIONS))

    async def deployment(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.kubectl("get", "deployment", name, "-n", OWN, "-o", "json"))
        return found

    async def _program(self, name: str, **more: str) -> Program:
        """What the Deployment describes."""
        pod = (await self.deployment(name))["spec"]["template"]["spec"]
        token = await asyncio.to_thread(self.plane.service_account_token, OWN, pod["serviceAccountName"])
        command, *arguments = pod["containers"][0]["args"]
        options = dict(one.removeprefix("--").split("=", 1) for one in arguments)
        ours = {"bind-address": f"127.0.0.1:{reserve()}"} | more
        return Program(self.cluster, name, self.plane.user_kubeconfig(name, token), command=command, **options | ours)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Both Deployments."""
        port = reserve()
        addresses = {
            "bind-address": f"127.0.0.1:{port}",
            "url": f"https://127.0.0.1:{port}",
            "metrics-bind-address": f"127.0.0.1:{reserve()}",
        }
        async with self.operator(), await self._program("transom-webhook", **addresses):
            yield

    @contextlib.asynccontextmanager
    async def operator(self) -> AsyncIterator[Program]:
        async with await self._program("transom") as program:
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

    async def until_pods_start(self, *, injected: bool) -> None:
        """Until a pod starts, with variables of ours or without."""
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": "default"}}
        text = json.dumps(pod | {"spec": {"containers": [{"name": "a", "image": "registry.corp.example/a:1"}]}})

        async def started() -> bool:
            command = ("create", "--dry-run=server", "-o", "json", "-f", "-")
            try:
                made = json.loads(await asyncio.to_thread(self.plane.kubectl, *command, input=text))
            except ControlPlaneError:
                return False
            return bool(made["spec"]["containers"][0].get("env")) == injected

        await until(started)

    async def left(self) -> set[str]:
        """What there is of Transom that belongs to no namespace."""
        found = await self.kubectl("get", CLUSTER_SCOPED, "-l", LABEL, "-o", "name")
        registered = await self.kubectl("get", "mutatingwebhookconfigurations", "-o", "name")
        return {*found.split(), *registered.split()}

    async def remove(self) -> None:
        """Everything, whatever came of the test: no operator gives hosts back here."""
        for kind, where in (("windowsinstances", ("-n", OWN)), ("egressproxies", ())):
            with contextlib.suppress(ControlPlaneError):
                for one in (await self.kubectl("get", kind, *where, "-o", "name")).split():
                    await self.kubectl("patch", one, *where, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        await self.kubectl("delete", CLUSTER_SCOPED, "-l", LABEL, "--ignore-not-found", "--timeout=180s")
        await self.kubectl("delete", "mutatingwebhookconfiguration", "transom", "--ignore-not-found")
        await self.kubectl("delete", "namespace", OWN, "--ignore-not-found", "--timeout=180s")


@pytest.fixture
async def installed(plane: ControlPlane, simulator: Simulator, tmp_path: Path) -> AsyncIterator[Installed]:
    async with admin(plane) as client:
        made = Installed(plane, Cluster(plane, client, simulator), tmp_path)
        yield made
        await made.remove()


def printed(test: str) -> list[str]:
    return ["\n".join(block.lines) for block in run_by(f"{HERE}::{test}")]


async def test_by_helm(installed: Installed) -> None:
    install, upgrade, uninstall = printed("test_by_helm")
    first, _, _ = uninstall.partition("\n")
    await installed.run(install)
    async with installed.running():
        host = await installed.configured()
        before = everything_of(host)
        await installed.run(upgrade)
        assert (await installed.deployment("transom"))["spec"]["replicas"] == 3
        image = (await installed.deployment("transom"))["spec"]["template"]["spec"]["containers"][0]["image"]
        assert image.startswith("registry.example/transom:")
        await installed.works(host)
        await installed.until_pods_start(injected=True)
        # what Helm takes away is no word about hosts
        await installed.run(first)
        await installed.until_pods_start(injected=False)
    assert everything_of(host) == before
    assert await installed.left() == {f"customresourcedefinition.apiextensions.k8s.io/{one}" for one in DEFINITIONS}
    assert "win-1" in await installed.kubectl("get", "windowsinstances", "-n", OWN)

    # and goes on with what there is
    await installed.run(install.replace(" --create-namespace", "").replace("label ", "label --overwrite "))
    async with installed.operator():
        await installed.works(host)
        assert everything_of(host) == before
        page = (ROOT / "docs" / "operator.md").read_text("utf-8").partition("**hosts as they were before Transom**")[2]
        given_back = page.partition("```\n")[2].splitlines()[:3]
        assert given_back[-1] == "kubectl delete egressproxies --all"
        await installed.run("\n".join(given_back))
        assert host.registry.key(LEDGER) is None
        await installed.run(uninstall)
    assert await installed.left() == set()


async def test_with_kustomize(installed: Installed) -> None:
    """What was applied is deleted while the operator works: no host changes."""
    (install,) = printed("test_with_kustomize")
    *_, apply = install.splitlines()
    await installed.run(install)
    async with installed.operator() as program:
        host = await installed.configured()
        before = everything_of(host)
        await installed.run(deletion(apply))

        async def over() -> bool:
            """It gave everything up in time, or has no rights any more."""
            return "Unauthorized" in program.log() or await installed.left() == set()

        await until(over)
    assert everything_of(host) == before
    await installed.remove()
    assert await installed.left() == set()


async def test_from_a_file_of_values(installed: Installed) -> None:
    """The same, and pods start afterwards, although they are refused while nobody answers for them."""
    (install,) = printed("test_from_a_file_of_values")
    *_, apply = install.splitlines()
    await installed.run(install)
    async with installed.running():
        host = await installed.configured()
        await installed.until_pods_start(injected=True)
        registered = json.loads(await installed.kubectl("get", "mutatingwebhookconfiguration", "transom", "-o", "json"))
        assert {one["failurePolicy"] for one in registered["webhooks"]} == {"Fail"}
        before = everything_of(host)
        await installed.run(deletion(apply))
        await installed.until_pods_start(injected=False)
    # nor is there anybody to be asked
    await installed.until_pods_start(injected=False)
    assert everything_of(host) == before
    await installed.remove()
    assert await installed.left() == set()


def deletion(apply: str) -> str:
    """The line that deletes what a line applies: nobody gives hosts back, so that nothing is waited for."""
    return apply.replace("kubectl apply", "kubectl delete --ignore-not-found --wait=false")
