"""A host that is met for the first time: its key is in the status before anything is put on it, whatever ends the pass then."""

import asyncio
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web
from tests.support.operator.clusters import PROXY, Cluster, environment, fingerprint
from tests.support.operator.gate import gate_to
from tests.support.operator.nodes import QUICK, bare, registered
from tests.support.operator.programs import Program
from tests.support.waiting import until

from transom.controllers.hosts.status_writer import record_host_key
from transom.controllers.runtime.cached_objects import INSTANCES
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.options import HostTimings
from transom.hosts.errors import HostKeyChanged, HostKeyNotRecorded
from transom.hosts.owner import Owner
from transom.hosts.ssh.ssh_client import Timeouts
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.events import EventRecorder
from transom.kube.resources import WINDOWS_INSTANCES
from transom.windows.host.queries import LEDGER
from winsim import Fault, Host

pytestmark = pytest.mark.lab


def now() -> datetime:
    return datetime.now(UTC)


def untouched(host: Host) -> bool:
    """Whether nothing was asked of the host but to log in."""
    return host.traffic.connections > 0 and host.traffic.requests == [] and host.registry.find_key(LEDGER) is None


async def recorded(cluster: Cluster, name: str = "win-1") -> str | None:
    return (await cluster.status(name)).get("hostKeyFingerprint")


@pytest.mark.parametrize("at", [1, 2, 4])
async def test_the_key_is_there_before_the_first_request(cluster: Cluster, at: int) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    host.faults.schedule_fault(Fault(at, action="hang"))
    async with cluster.operator(pace=HostTimings(timeouts=Timeouts(connect=5, progress=2, whole=20))):
        await cluster.instance("win-1", host)
        await until(lambda: host.faults.ordered is None)
        assert await recorded(cluster) == fingerprint(cluster, host)
        await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")


async def test_an_operator_that_was_killed_leaves_the_host_pinned(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    async with Program(cluster) as program:
        host.faults.disk_delay = 0.5
        await until(lambda: any("gather-" in request for request in host.traffic.requests))
        program.signal(signal.SIGKILL)
        await program.process.wait()
    host.faults.disk_delay = 0.0
    assert host.registry.find_key(LEDGER) is None
    assert await recorded(cluster) == fingerprint(cluster, host)
    await cluster.simulator.change_host_key(host)
    host.traffic.clear()
    async with cluster.operator(leader_elect=False):
        await cluster.until("win-1", Configured="False/HostKeyChanged", Reachable="False/HostKeyChanged")
        assert host.traffic.requests == []


async def test_nothing_is_sent_while_the_key_cannot_be_recorded(cluster: Cluster) -> None:
    host, met = await cluster.simulator.add_host(), await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    plane = cluster.control_plane
    async with gate_to(plane.url, plane.directory) as gate:
        connection = connect(str(plane.write_kubeconfig("gated", plane.admin_token, server=gate.url)))
        async with cluster.operator(Client(connection), controllers=("egress", "hosts")):
            await cluster.instance("win-2", met)
            await cluster.until("win-2", Configured="True")
            gate.answer = lambda request: web.Response(status=500) if request.path.endswith("/status") else None
            await cluster.instance("win-1", host)
            await until(lambda: host.traffic.connections >= 2)
            assert untouched(host)
            gate.answer = lambda request: None
            await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")
            assert await recorded(cluster) == fingerprint(cluster, host)
        await connection.close()


async def test_the_first_contact_costs_two_writes_more_than_a_later_change(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    plane = cluster.control_plane
    async with gate_to(plane.url, plane.directory) as gate:
        connection = connect(str(plane.write_kubeconfig("gated", plane.admin_token, server=gate.url)))
        async with cluster.operator(Client(connection), controllers=("egress", "hosts")):
            await cluster.instance("win-1", host)
            await cluster.until("win-1", Configured="True")
            statuses = [request for request in gate.requests if "/windowsinstances/" in request and request.endswith("/status")]
            # the key, where SSH went, that the first host was begun, and what came of the pass
            assert len(statuses) == 4
            await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
            await cluster.until("win-1", ProxyApplied="True/Applied")
            statuses = [request for request in gate.requests if "/windowsinstances/" in request and request.endswith("/status")]
            # that it waits for the other settings, that it is the first to get them, and what came of them
            assert len(statuses) <= 7
        await connection.close()


async def test_a_node_is_pinned_before_its_token_is_sent(cluster: Cluster, payload: Path) -> None:
    """What else is written into the status meanwhile takes nothing out of it."""
    host = await bare(cluster, "win")
    host.faults.disk_delay = 0.05
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.instance("win-1", host, lifecycle="Node")
        await until(lambda: host.traffic.requests)
        while host.registry.find_key(LEDGER) is None:
            assert await recorded(cluster) == fingerprint(cluster, host)
            await asyncio.sleep(0.02)
        host.faults.disk_delay = 0.0
        await registered(cluster, host)
        await cluster.until("win-1", NodeReady="True")
        assert await recorded(cluster) == fingerprint(cluster, host)


async def test_of_two_keys_the_one_that_was_recorded_stays(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.instance("win-1", host)
    client = cluster.client
    held = await client.get(INSTANCES, "win-1", cluster.namespace)
    leadership = Leadership(client, EventRecorder(client, instance="test"), lambda: 60.0, Owner("test", "here"))
    # somebody annotates it meanwhile: it is written all the same
    await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"annotations": {"a": "b"}}})
    assert (await record_host_key(held, "SHA256:one", leadership, now)).live.host_key_fingerprint == "SHA256:one"
    assert (await record_host_key(held, "SHA256:one", leadership, now)).live.host_key_fingerprint == "SHA256:one"
    with pytest.raises(HostKeyChanged, match="SHA256:one was recorded meanwhile: nothing was sent"):
        await record_host_key(held, "SHA256:two", leadership, now)
    assert await recorded(cluster) == "SHA256:one"
    await cluster.delete(WINDOWS_INSTANCES, "win-1")
    with pytest.raises(HostKeyNotRecorded, match=r"nothing was sent to it: .*not found"):
        await record_host_key(held, "SHA256:one", leadership, now)
    await cluster.instance("win-1", host)
    with pytest.raises(HostKeyNotRecorded, match="the WindowsInstance is gone"):
        await record_host_key(held, "SHA256:one", leadership, now)
    assert await recorded(cluster) is None


async def test_a_pinned_host_is_held_to_its_key_from_the_first_pass(cluster: Cluster) -> None:
    host, other = await cluster.simulator.add_host(), await cluster.simulator.add_host()
    await cluster.simulator.change_host_key(other)
    await cluster.instance("win-1", host, hostKey=cluster.simulator.format_host_key(other))
    await cluster.instance("win-2", other, hostKey=cluster.simulator.format_host_key(other))
    async with cluster.operator():
        await cluster.until("win-1", Configured="False/HostKeyChanged")
        await cluster.until("win-2", Configured="True")
        assert host.traffic.requests == []


async def test_hosts_whose_key_is_not_known_are_not_connected_to(cluster: Cluster) -> None:
    known, host = await cluster.simulator.add_host(), await cluster.simulator.add_host()
    await cluster.instance("win-2", known)
    async with cluster.operator():
        await cluster.until("win-2", Configured="True")
    await cluster.instance("win-1", host)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with cluster.operator(require_host_keys=True):
        await cluster.until("win-1", Configured="False/HostKeyMissing")
        # one that was met before is known
        await cluster.until("win-2", ProxyApplied="True/Applied")
        (message,) = [
            condition["message"]
            for condition in (await cluster.status("win-1"))["conditions"]
            if condition["type"] == "Configured"
        ]
        assert f"`ssh-keyscan -t ed25519 -p {host.port} {host.address}`" in message
        assert "spec.hostKey of the WindowsInstance" in message
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"annotations": {"touched": "yes"}}})
        await asyncio.sleep(0.5)
        assert host.traffic.connections == 0
        assert len(await cluster.told("win-1", "HostKeyMissing")) == 1
        await cluster.instance("win-1", host, hostKey=cluster.simulator.format_host_key(host))
        await cluster.until("win-1", ProxyApplied="True/Applied")
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")


async def test_a_host_that_was_never_met_is_not_met_for_its_removal(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    async with cluster.operator(require_host_keys=True):
        await cluster.instance("win-1", host)
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"finalizers": ["transom.dev/host"]}})
        await cluster.until("win-1", Configured="False/HostKeyMissing")
        await cluster.client.delete(WINDOWS_INSTANCES, "win-1", cluster.namespace)
        await cluster.gone("win-1")
        assert host.traffic.connections == 0
