"""Transom from its installation to its removal, as people have it: kubectl, a real API server, a Windows host that is Wine."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from lab.control_plane import ControlPlane
from lab.machine import Machine
from tests.support.operator.bundles import ROOT_1, ROOT_2, SHA1_1, SHA1_2
from tests.support.operator.installation import SERVICE, Installation, environment, followed, roots
from tests.support.operator.programs import Program
from tests.support.process import start
from tests.support.waiting import PATIENCE

from lab import openshift, wine

pytestmark = pytest.mark.lab
PROXY = "http://proxy.corp.example:3128"
OTHER = "http://other.corp.example:3128"
LABEL = "transom.dev/inject-trusted-cabundle"


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with Machine() as made:
        made.boot()
        yield made


@pytest.fixture
async def installed(control_plane: ControlPlane, machine: Machine) -> AsyncIterator[Installation]:
    made = Installation(control_plane)
    await made.install()
    await made.key(machine.ssh.key)
    yield made
    await made.remove()


def trusts(machine: Machine, there: str, gone: str) -> bool:
    shown = roots(machine)
    return there in shown and gone not in shown


async def test_installed_by_its_manifests(installed: Installation, machine: Machine) -> None:
    ca = {"trustedCA": {"name": "corp-ca"}}
    await installed.bundle(ROOT_1)
    async with installed.program() as program:
        await installed.proxy(httpProxy=PROXY, httpsProxy=PROXY, **ca)
        await installed.instance(machine)
        row = await installed.until_row(proxyapplied="True", trustapplied="True", ready="True")
        assert row["ADDRESS"] == machine.place.address
        assert f"HTTPS_PROXY={PROXY}" in environment(machine)
        assert machine.list_starts(SERVICE)[-1].get_variable("HTTPS_PROXY") == PROXY

        await installed.proxy(httpProxy=OTHER, httpsProxy=OTHER, **ca)
        await followed(lambda: f"HTTPS_PROXY={OTHER}" in environment(machine))
        await followed(lambda: machine.list_starts(SERVICE)[-1].get_variable("HTTPS_PROXY") == OTHER)
        await installed.bundle(ROOT_2)
        await followed(lambda: trusts(machine, SHA1_2, SHA1_1))

        await settled(program)
        await invalid_edits_change_nothing(installed, machine, ca)

        await installed.proxy()
        await followed(lambda: not environment(machine) and SHA1_2 not in roots(machine))
        await followed(lambda: machine.list_starts(SERVICE)[-1].get_variable("HTTPS_PROXY") is None)
        await followed(lambda: machine.export(r"HKLM\SOFTWARE\Transom") == "")
        await told(installed)
        assert (await program.get("/readyz"))[0] == 200
        assert "transom_hosts" in (await program.get("/metrics"))[1]
        assert await program.terminate() == 0
    log = program.log()
    assert '"key": "' in log
    assert "forbidden" not in log


async def settled(program: Program) -> None:
    """Wait until nobody works on a host."""
    async with asyncio.timeout(PATIENCE):
        while 'transom_queue_working{controller="hosts"} 0.0' not in (await program.get("/metrics"))[1]:
            await asyncio.sleep(0.1)


async def invalid_edits_change_nothing(installed: Installation, machine: Machine, ca: dict[str, object]) -> None:
    """What the schema cannot refuse; the registry of the host is the same to the byte."""
    keys = (r"HKLM\SYSTEM\CurrentControlSet\Services", r"HKLM\SOFTWARE\Transom", r"HKLM\SOFTWARE\Microsoft\SystemCertificates")
    before = [machine.export(key) for key in keys]
    await installed.proxy(httpProxy="http://user:hunter2 x@p.example", httpsProxy=OTHER, noProxy="*.example.com", **ca)
    await installed.kubectl("wait", "--for=condition=Valid=false", "--timeout=180s", "egressproxy/cluster")
    await asyncio.sleep(1)
    assert [machine.export(key) for key in keys] == before
    said = await installed.told("egressproxy", "cluster", "InvalidSettings", "spec.httpProxy: ", "spec.noProxy")
    assert "hunter2" not in said.partition("Status:")[2]
    await installed.proxy(httpProxy=OTHER, httpsProxy=OTHER, **ca)
    await installed.kubectl("wait", "--for=condition=Valid", "--timeout=180s", "egressproxy/cluster")


async def told(installed: Installation) -> None:
    """`kubectl describe` tells what was done last, and in events how the host began."""
    removed = f"removed HTTP_PROXY, HTTPS_PROXY, NO_PROXY of {SERVICE}"
    async with asyncio.timeout(PATIENCE):
        while removed not in str((await installed.get(f"{installed.instances}/win-1"))["status"]):
            await asyncio.sleep(0.2)
    assert removed in (await installed.describe("wini", "win-1")).partition("Events:")[0]
    await installed.told("wini", "win-1", f"added HTTP_PROXY, HTTPS_PROXY, NO_PROXY of {SERVICE}")
    of_settings = (f"httpProxy {PROXY}", f"httpProxy {OTHER}", "trust bundle of 1 certificates", "httpProxy removed")
    await installed.told("egressproxy", "cluster", *of_settings)


async def test_on_openshift_its_proxy_is_the_source(
    installed: Installation, machine: Machine, control_plane: ControlPlane
) -> None:
    """OpenShift's own definitions: `status` is what holds, `trustedCA` in `openshift-config`; nothing of it is written."""
    await asyncio.to_thread(openshift.define, control_plane)
    try:
        await story_on_openshift(installed, machine)
    finally:
        await asyncio.to_thread(openshift.forget, control_plane)


async def story_on_openshift(installed: Installation, machine: Machine) -> None:
    await installed.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-config"}})
    await installed.bundle(ROOT_1, "openshift-config")
    await openshift_proxy(installed, PROXY)
    holder = {"name": "asks", "namespace": installed.namespace, "labels": {LABEL: "bundle-only"}}
    await installed.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": holder, "data": {"theirs": "1"}})
    async with installed.program() as program:
        # which services there are is the one thing that OpenShift's object cannot say
        await installed.proxy()
        await installed.instance(machine)
        await installed.until_row(proxyapplied="True", trustapplied="True")
        assert "NO_PROXY=.cluster.local,.svc,10.0.0.0/16" in environment(machine)
        assert f"HTTPS_PROXY={PROXY}" in environment(machine)
        assert SHA1_1 in roots(machine)
        wanted = {"theirs", "ca-bundle.crt"}
        async with asyncio.timeout(PATIENCE):
            while set(await data(installed)) != wanted:
                await asyncio.sleep(0.1)
        assert (await data(installed))["theirs"] == "1"

        await openshift_proxy(installed, OTHER)
        await followed(lambda: f"HTTPS_PROXY={OTHER}" in environment(machine))
        await installed.bundle(ROOT_2, "openshift-config")
        await followed(lambda: trusts(machine, SHA1_2, SHA1_1))
        await openshift_proxy(installed, "", ca="")
        await followed(lambda: not environment(machine) and SHA1_2 not in roots(machine))
        async with asyncio.timeout(PATIENCE):
            while await data(installed) != {"theirs": "1"}:
                await asyncio.sleep(0.1)
        assert await program.terminate() == 0
    assert "forbidden" not in program.log()
    mine = f"system:serviceaccount:{installed.namespace}:transom"
    asked = [item for item in installed.control_plane.read_audit() if item["user"]["username"] == mine]
    groups = [item for item in asked if (item.get("objectRef") or {}).get("apiGroup") == "config.openshift.io"]
    assert groups
    assert {group["verb"] for group in groups} <= {"list", "watch"}


async def openshift_proxy(installed: Installation, url: str, ca: str = "corp-ca") -> None:
    """As the network operator leaves it: the status has what the spec and the cluster's networks make."""
    kind = {"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}}
    spec = {"httpProxy": url, "httpsProxy": url, "trustedCA": {"name": ca}}
    await installed.apply({**kind, "spec": spec})
    status = {"httpProxy": url, "httpsProxy": url, "noProxy": ".cluster.local,.svc,10.0.0.0/16" if url else ""}
    patch = json.dumps({"status": status})
    await installed.kubectl("patch", "proxy", "cluster", "--type=merge", "--subresource=status", "-p", patch)


async def data(installed: Installation) -> dict[str, str]:
    found: dict[str, str] = (await installed.get(f"/api/v1/namespaces/{installed.namespace}/configmaps/asks")).get("data") or {}
    return found


async def test_apply_by_hand_beside_the_operator(installed: Installation, machine: Machine) -> None:
    """The command is told who has the host while the operator restarts a service there, and has nothing to do afterwards."""
    async with installed.program() as program:
        await installed.proxy(httpProxy=PROXY, httpsProxy=PROXY)
        await installed.instance(machine)
        await installed.until_row(proxyapplied="True")
        await settled(program)
        starts = len(machine.list_starts(SERVICE))
        frozen = [pid for pid in wine.list_processes(machine.prefix) if SERVICE in command_line(pid)]
        assert frozen
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            await installed.proxy(httpProxy=OTHER, httpsProxy=OTHER)
            await followed(lambda: f"HTTPS_PROXY={OTHER}" in environment(machine))
            code, said = await apply(installed)
        finally:
            for pid in frozen:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        assert code == 1, said
        assert "locked by transom-operator@" in said
        await followed(lambda: machine.list_starts(SERVICE)[-1].get_variable("HTTPS_PROXY") == OTHER)
        await settled(program)
        code, said = await apply(installed)
        assert code == 0, said
        assert "1 unchanged" in said
        assert len(machine.list_starts(SERVICE)) == starts + 1


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "cmdline").read_text()
    return ""


async def apply(installed: Installation) -> tuple[int, str]:
    """`transom apply` as a process: exit code, and all that it said."""
    plane = installed.control_plane
    environment_ = {"PATH": os.defpath, "HOME": str(plane.directory), "KUBECONFIG": str(plane.kubeconfig), "COLUMNS": "200"}
    process = await start("apply", "--context", "lab", "--namespace", installed.namespace, environment=environment_)
    output, errors = await process.communicate()
    return process.returncode or 0, (output + errors).decode()
