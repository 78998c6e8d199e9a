"""Two who would work on one host: two operators, and an operator beside a person's files."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.waiting import until

from transom.kube.resources import WINDOWS_INSTANCES
from transom.windows.host.queries import LEDGER
from winsim import Host

pytestmark = pytest.mark.lab
OTHER = "http://other.corp.example:3128"


@pytest.fixture
async def second(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Another namespace of the same cluster, with an operator of its own."""
    made = Cluster(cluster.control_plane, cluster.client, cluster.simulator)
    await made.prepare()
    yield made
    await made.leave()


def manager(host: Host) -> str:
    value = host.registry.find_value(LEDGER, "Manager")
    return value.decode_text() if value is not None else ""


async def said(cluster: Cluster, name: str) -> str:
    return next(
        str(condition["message"])
        for condition in (await cluster.status(name))["conditions"]
        if condition["type"] == "Configured"
    )


async def test_the_second_operator_leaves_the_host_until_a_person_says_otherwise(cluster: Cluster, second: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", Ready="True")
    assert f"in namespace {cluster.namespace} of cluster " in manager(host)
    await second.instance("win-9", host)
    await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
    async with second.operator():
        await second.until("win-9", Ready="False/ManagedByOther", Configured="False/ManagedByOther", ProxyApplied="False")
        assert manager(host) in await said(second, "win-9")
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")
        await second.merge(WINDOWS_INSTANCES, "win-9", {"metadata": {"annotations": {"transom.dev/adopt": "true"}}})
        await second.until("win-9", Ready="True")
    assert f"in namespace {second.namespace} of cluster " in manager(host)
    assert f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet")
    # the former one sees whose it is now; its instance goes, and takes nothing away
    async with cluster.operator():
        await cluster.until("win-1", Configured="False/ManagedByOther")
        await cluster.delete(WINDOWS_INSTANCES, "win-1")
        await cluster.gone("win-1")
    assert f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet")


async def transom(cluster: Cluster, state: Path, *arguments: str) -> tuple[int, str]:
    settings = {"KUBECONFIG": str(cluster.control_plane.kubeconfig), "XDG_STATE_HOME": str(state), "PATH": os.environ["PATH"]}
    program = str(Path(sys.executable).parent / "transom")
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=settings
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_files_beside_an_operator(cluster: Cluster, tmp_path: Path) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, networks={"internalAPIHost": "api.corp.example"})
    await cluster.instance("win-1", host)
    spec = {"address": host.address, "port": host.port, "username": host.username}
    place = {"namespace": cluster.namespace}
    key = {"private-key.pem": cluster.simulator.client_key.export_private_key().decode()}
    base = {"httpProxy": OTHER, "httpsProxy": OTHER, "networks": {"internalAPIHost": "api.corp.example"}}
    kind = {"apiVersion": "transom.dev/v1alpha1"}
    objects = [
        {**kind, "kind": "EgressProxy", "metadata": {"name": "cluster"}, "spec": base},
        {**kind, "kind": "WindowsInstance", "metadata": {"name": "mine", **place}, "spec": spec},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud-private-key", **place}, "stringData": key},
    ]
    files = tmp_path / "all.yaml"
    files.write_text(yaml.safe_dump_all(objects))
    asked = ("-n", cluster.namespace, "-o", "json")
    async with cluster.operator():
        await cluster.until("win-1", Ready="True")
        # the operator's own objects: the same manager
        code, out = await transom(cluster, tmp_path, "apply", "--context", "lab", *asked)
        assert (code, '"result": "unchanged"' in out or '"result":"unchanged"' in out) == (0, True), out
        code, out = await transom(cluster, tmp_path, "apply", "-f", str(files), *asked)
        assert (code, manager(host) in out) == (1, True), out
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")
        code, out = await transom(cluster, tmp_path, "apply", "-f", str(files), "--take-over", "--context", "lab", *asked)
        assert (code, "WindowsInstance win-1 is paused" in out) == (0, True), out
        await cluster.until("win-1", Configured="Unknown/Paused")
        await until(lambda: manager(host) == "files")
        assert f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet")
