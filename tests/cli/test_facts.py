"""`transom facts` of many hosts: of manifests, and of a cluster."""

import asyncio
from pathlib import Path

import pytest
import yaml
from tests.support.command import Ran, run
from tests.support.operator.clusters import Cluster

from transom.kube.resources import WINDOWS_INSTANCES
from winsim import Host

pytestmark = pytest.mark.lab


async def facts(*arguments: str) -> Ran:
    return await asyncio.to_thread(run, "facts", *arguments, "-o", "json")


def names(told: Ran) -> list[str]:
    return [item["name"] for item in told.json]


@pytest.fixture
async def hosts(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Host]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.control_plane.kubeconfig))
    monkeypatch.setenv("TRANSOM_NAMESPACE", cluster.namespace)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = [await cluster.simulator.add_host() for _ in range(3)]
    for number, host in enumerate(found):
        await cluster.instance(f"win-{number}", host)
    return found


async def test_the_hosts_of_a_cluster(cluster: Cluster, hosts: list[Host]) -> None:
    told = await facts("--all")
    assert (told.code, names(told)) == (0, ["win-0", "win-1", "win-2"]), told.err
    assert {item["computerName"] for item in told.json} == {host.name for host in hosts}
    await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"labels": {"env": "test"}}})
    assert names(await facts("-l", "env=test")) == ["win-1"]
    assert names(await facts("--limit", "win-[12]", "--context", "lab")) == ["win-1", "win-2"]
    one = await facts("win-2", "--context", "lab")
    assert (one.code, one.json["name"]) == (0, "win-2")
    hosts[1].faults.refuses = True
    told = await facts("--all", "--connect-timeout", "2s")
    assert (told.code, names(told)) == (1, ["win-0", "win-2"])
    assert "win-1: " in told.err


async def test_the_hosts_of_manifests(cluster: Cluster, hosts: list[Host], tmp_path: Path) -> None:
    kind = {"apiVersion": WINDOWS_INSTANCES.api_version, "kind": "WindowsInstance"}
    key = {"private-key.pem": cluster.simulator.client_key.export_private_key().decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cloud-private-key"}, "stringData": key}
    objects = [
        kind
        | {"metadata": {"name": f"mine-{number}", "labels": {"row": str(number)}}}
        | {"spec": {"address": host.address, "port": host.port, "username": host.username}}
        for number, host in enumerate(hosts)
    ]
    files = tmp_path / "hosts.yaml"
    files.write_text(yaml.safe_dump_all([*objects, secret]))
    assert names(await facts("-f", str(files), "--all")) == ["mine-0", "mine-1", "mine-2"]
    assert names(await facts("-f", str(files), "mine-0,mine-2")) == ["mine-0", "mine-2"]
    assert names(await facts("-f", str(files), "-l", "row=1")) == ["mine-1"]
    unknown = await facts("-f", str(files), "mime-1")
    assert (unknown.code, "did you mean mine-1" in unknown.err) == (2, True)
    for wrong in ((), ("--all", "mine-1"), ("-f", str(files)), ("-f", str(files), "--all", "-u", "joe")):
        assert (await facts(*wrong)).code == 2
    text = await asyncio.to_thread(run, "facts", "-f", str(files), "--all")
    assert f"mine-1 ({hosts[1].address})" in text.out
