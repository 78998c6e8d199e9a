"""The operator that upgrades nodes is killed, or frozen past its lease: the next one goes on, and nothing is done twice."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web
from tests.support.operator.clusters import Cluster
from tests.support.operator.gate import Gate, gate_to
from tests.support.operator.kubelets import Kubelets
from tests.support.operator.programs import Program
from tests.support.operator.replicas import changes, generation, on_host, replica, writes
from tests.support.operator.upgrades import PROGRAM, QUICK, nodes, upgraded
from tests.support.waiting import PATIENCE, until

from transom.kube.resources import LEASES, WINDOWS_INSTANCES
from winsim import Host

pytestmark = pytest.mark.lab


async def pause(cluster: Cluster, number: int, *, paused: bool) -> None:
    await cluster.merge(WINDOWS_INSTANCES, f"win-{number}", {"spec": {"paused": paused}})


async def at_three_steps(cluster: Cluster, kubelets: Kubelets, hosts: list[Host]) -> None:
    """The first host is upgraded; then one is being drained, one waits for its kubelet, and files are replaced on one."""
    await kubelets.pod("web", hosts[1].name.lower(), app="web")
    await kubelets.budget(0)
    kubelets.silent.add(hosts[2].name.lower())
    done = changes(hosts[3])

    def slow() -> None:
        # before its first step: not one more of the script goes by meanwhile
        if changes(hosts[3]) > done:
            hosts[3].faults.disk_delay = 4.0
            hosts[3].interlopers.clear()

    hosts[3].interlopers.add(slow)
    await upgraded(cluster, "win-0")
    for number in (1, 2, 3):
        await pause(cluster, number, paused=False)
    await cluster.until("win-1", Configured="False/Draining")
    await cluster.until("win-2", Configured="False/WaitingForNode")
    await until(lambda: hosts[3].faults.disk_delay > 0)


@contextlib.asynccontextmanager
async def gated(cluster: Cluster, **options: str) -> AsyncIterator[tuple[Gate, Program]]:
    """A process behind a gate, with an administrator's rights."""
    plane = cluster.control_plane
    async with gate_to(plane.url, plane.directory) as gate:
        kubeconfig = plane.write_kubeconfig(f"{cluster.namespace}-gated", plane.admin_token, server=gate.url)
        async with Program(cluster, "first", kubeconfig, **options) as program:
            yield gate, program


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_the_next_one_goes_on_at_each_step(
    cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path, how: str
) -> None:
    hosts = await nodes(cluster, kubelets, payload, 4)
    before = [len(host.starts("kubelet")) for host in hosts]
    for number in (1, 2, 3):
        await pause(cluster, number, paused=True)
    first = await replica(cluster, "one", payload=str(newer), **{"max-unavailable": "4"})
    async with first:
        await at_three_steps(cluster, kubelets, hosts)
        assert len(hosts[1].starts("kubelet")) == before[1]
        leadership = await generation(cluster)
        first.signal(signal.SIGSTOP if how == "frozen" else signal.SIGKILL)
        for host in hosts[1:]:
            assert (await kubelets.node(host.name.lower()))["spec"]["unschedulable"]
        if how == "killed":
            await first.process.wait()
            # waiting for it to run out is what the frozen one is for
            await cluster.delete(LEASES, "transom")
        async with cluster.operator(payload=newer, pace=QUICK, max_unavailable=4) as second:
            await until(lambda: second.working)
            hosts[3].faults.disk_delay = 0.0
            kubelets.silent.clear()
            for number in (2, 3):
                await upgraded(cluster, f"win-{number}")
            done = [changes(host) for host in hosts]
            if how == "frozen":
                thawed = datetime.now(UTC)
                first.signal(signal.SIGCONT)
                await until(lambda: "lease lost" in first.log())
            await kubelets.budget(9)
            await upgraded(cluster, "win-1")
            if how == "frozen":
                assert writes(cluster, "one", thawed) == []
                assert await generation(cluster) > leadership
            assert [changes(host) - was for host, was in zip(hosts, done, strict=True)] == [0, 1, 0, 0]
            # what was ready, or waited for its kubelet alone, was not changed again
            # (of the last one the files may all be there by the time the next leader comes)
            assert [on_host(host) > leadership for host in hosts[:3]] == [False, True, False]
    assert kubelets.cordons == {host.name.lower(): 1 for host in hosts}
    starts = [len(host.starts("kubelet")) - was for host, was in zip(hosts, before, strict=True)]
    # where the next leader is late, the script of the one before has come as far as the kubelet of the last host
    assert starts[:3] == [1, 1, 1]
    assert starts[3] in (1, 2)
    assert await kubelets.pods() == set()
    assert [host.unknown for host in hosts] == [[]] * 4


@pytest.mark.parametrize("step", ["cordoned", "worked on"])
async def test_killed_between_two_requests(cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path, step: str) -> None:
    """When the Node has just been cordoned, and no pod was told to go; when it is about to take pods again."""
    (host,) = await nodes(cluster, kubelets, payload, 1)
    name, starts, old = host.name.lower(), len(host.starts("kubelet")), host.files.read(PROGRAM)
    await kubelets.pod("web", name)
    async with gated(cluster, payload=str(newer)) as (gate, program):
        patches = 0

        def kill(request: web.Request) -> web.Response | None:
            nonlocal patches
            # cordoned, empty, what is installed, and given back
            patches += (request.method, request.path) == ("PATCH", f"/api/v1/nodes/{name}")
            drains = request.query.get("fieldSelector") == f"spec.nodeName={name}"
            if drains if step == "cordoned" else patches == 4:
                program.signal(signal.SIGKILL)
                return web.Response(status=503)
            return None

        gate.answer = kill
        async with asyncio.timeout(PATIENCE):
            await program.process.wait()
    node = await kubelets.node(name)
    assert node["spec"]["unschedulable"]
    assert node["metadata"]["annotations"]["transom.dev/cordoned"] == "upgrade"
    assert (host.files.read(PROGRAM) == old) == (step == "cordoned")
    assert await kubelets.pods() == ({"web"} if step == "cordoned" else set())
    # waiting for it to run out is tried above
    await cluster.delete(LEASES, "transom")
    async with cluster.operator(payload=newer, pace=QUICK):
        await upgraded(cluster, "win-0")
    assert kubelets.cordons == {name: 1}
    assert len(host.starts("kubelet")) == starts + 1


async def test_killed_before_it_said_that_the_first_one_has_passed(
    cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path
) -> None:
    """Its Node takes pods again, and its status does not say so yet: the others need no second one that goes first."""
    hosts = await nodes(cluster, kubelets, payload, 3)
    numbers = {host.name.lower(): number for number, host in enumerate(hosts)}
    before = [len(host.starts("kubelet")) for host in hosts]
    for number, host in enumerate(hosts):
        await kubelets.pod(f"held-{number}", host.name.lower(), app="web")
    await kubelets.budget(0)
    async with gated(cluster, payload=str(newer), **{"max-unavailable": "2"}) as (gate, program):
        await until(lambda: len(kubelets.order) == 1)
        (name,) = kubelets.order
        first = numbers[name]
        patches = 0

        def kill(request: web.Request) -> web.Response | None:
            nonlocal patches
            # empty, what is installed, and given back
            patches += (request.method, request.path) == ("PATCH", f"/api/v1/nodes/{name}")
            if patches < 3 or not request.path.endswith(f"/windowsinstances/win-{first}/status"):
                return None
            program.signal(signal.SIGKILL)
            return web.Response(status=503)

        gate.answer = kill
        await kubelets.budget(1)
        async with asyncio.timeout(PATIENCE):
            await program.process.wait()
    assert not (await kubelets.node(name))["spec"].get("unschedulable")
    await cluster.delete(LEASES, "transom")
    async with cluster.operator(payload=newer, pace=QUICK, max_unavailable=2):
        others = set(range(3)) - {first}
        for number in others:
            await cluster.until(f"win-{number}", Configured="False/Draining")
        assert [len(host.starts("kubelet")) - was for host, was in zip(hosts, before, strict=True)] == [
            int(number == first) for number in range(3)
        ]
        await kubelets.budget(9)
        for number in range(3):
            await upgraded(cluster, f"win-{number}")
    assert kubelets.most_away == 2
