"""`transom status --wait`: a real API server, a working operator, and simulated hosts."""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cli.programs import started, transom
from tests.support.command import run
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.rollouts import breaks_tls, halted

from transom.kube.resources import EGRESS_PROXIES, WINDOWS_INSTANCES
from winsim import Host

pytestmark = pytest.mark.lab
OTHER = "http://other.corp.example:3128"


@pytest.fixture(autouse=True)
async def at_this_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.control_plane.kubeconfig))
    monkeypatch.setenv("TRANSOM_NAMESPACE", cluster.namespace)
    yield
    await cluster.leave()


async def code(*arguments: str) -> int:
    """The exit code of a command in this process, which starts at once."""
    return (await asyncio.to_thread(run, *arguments)).code


async def hosts_of(cluster: Cluster, count: int) -> list[Host]:
    found = [await cluster.simulator.add_host() for _ in range(count)]
    for number, host in enumerate(found):
        await cluster.instance(f"win-{number}", host)
    return found


async def test_it_ends_when_every_host_has_the_settings(cluster: Cluster) -> None:
    hosts = await hosts_of(cluster, 3)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    waiting = asyncio.create_task(transom("status", "--wait", "-o", "json"))
    await asyncio.sleep(2)
    assert not waiting.done()
    async with cluster.operator(controllers=("egress", "hosts")):
        told = await waiting
        assert (told.code, told.json["missing"]) == (0, []), told.err
        assert all(f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet") for host in hosts)
        assert [f"win-{number}: ready" in told.err.splitlines() for number in range(3)] == [True] * 3, told.err
        # an edit is waited for, though the status of before it says that all is well
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        told = await transom("status", "--wait")
        assert (told.code, "WindowsInstance/win-0" in told.out) == (0, True), told.err
        assert all(f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet") for host in hosts)
        # one that is paused is not waited for, but where it is named
        await cluster.merge(WINDOWS_INSTANCES, "win-0", {"spec": {"paused": True}})
        assert await code("status", "--wait") == 0
        named = await transom("status", "host", "win-0", "win-1", "--wait", "--timeout", "10s", "-o", "json")
        assert (named.code, [item["name"] for item in named.json["missing"]]) == (1, ["win-0"])


async def test_what_is_missing_is_named(cluster: Cluster) -> None:
    hosts = await hosts_of(cluster, 3)
    hosts[1].faults.refuses = True
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with cluster.operator(controllers=("egress", "hosts")):
        await cluster.until("win-1", Ready="False/Unreachable")
        told = await transom("status", "--wait", "--timeout", "3s", "-o", "json")
        assert told.code == 1
        missing = {(item["part"], item["name"]): item["reason"] for item in told.json["missing"]}
        assert missing[("hosts", "win-1")] == "Unreachable"
        assert "win-1: Unreachable" in told.err
        # the others are ready
        assert await code("status", "host", "win-0,win-2", "--wait") == 0
        gone = await transom("status", "host", "win-9", "--wait", "--timeout", "2s", "-o", "json")
        assert (gone.code, gone.json["missing"][0]["reason"]) == (1, "NotFound")
        assert await code("status", "-l", "env=prod", "--wait", "--timeout", "1s") == 1
        assert await code("status", "--wait", "--for", "operator") == 0
        hosts[1].faults.refuses = False
        assert await code("status", "--wait") == 0
    for wrong in (("--wait", "--watch"), ("--wait", "-f", "."), ("--for", "hosts"), ("--wait", "--for", "cats")):
        assert await code("status", *wrong) == 2


async def test_a_halted_rollout_ends_it(cluster: Cluster) -> None:
    for host in await hosts_of(cluster, 3):
        host.fetch = breaks_tls
    policy: dict[str, Any] = {"readinessEndpoints": ["https://registry.corp.example/v2/"], "readinessPolicy": "Report"}
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, **policy)
    async with cluster.operator(controllers=("egress", "hosts")):
        await halted(cluster, "True")
        told = await transom("status", "--wait", "--timeout", "1h", "-o", "json")
    assert told.code == 1
    assert "transom resume --rollout" in told.err
    assert {item["part"] for item in told.json["missing"]} >= {"settings", "hosts"}


async def test_without_an_operator_and_interrupted(cluster: Cluster) -> None:
    await hosts_of(cluster, 1)
    told = await transom("status", "--wait", "--timeout", "1s", "-o", "json")
    assert (told.code, told.json["missing"][0]["part"]) == (1, "operator")
    process = await started("status", "--wait", "-o", "json")
    assert process.stderr is not None
    assert b"waiting for" in await process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert (process.returncode, b'"missing": [' in out) == (130, True), err
    await cluster.delete(WINDOWS_INSTANCES, "win-0")
    empty = await transom("status", "--wait", "--for", "settings", "--timeout", "1s", "-o", "json")
    assert (empty.code, empty.json["missing"][0]["reason"]) == (1, "NotFound")
    assert not (await cluster.client.list_objects(EGRESS_PROXIES)).items
