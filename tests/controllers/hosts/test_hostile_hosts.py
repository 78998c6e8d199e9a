"""Hosts whose answers are made up, before the operator: the others are done, the lease is kept, and each has its reason."""

import asyncio
from typing import Any

import pytest
from lab.control_plane import ControlPlane
from tests.hosts.hostile import LIES, HostileSimulator
from tests.hosts.lying_servers import SERVERS, run_servers
from tests.support.operator.clusters import PASSWORD, PROXY, Cluster, admin, environment
from tests.support.operator.replicas import generation, leads, replica
from tests.support.waiting import PATIENCE, until

from transom.controllers.hosts import proxy_only
from transom.controllers.instance_state import status
from transom.hosts.passes.base_pass import PassResult
from transom.hosts.passes.converge import Convergence
from transom.kube.resources import WINDOWS_INSTANCES
from winsim import Simulator

pytestmark = pytest.mark.lab
OTHER = "http://other.corp.example:3128"
UNSEEN = {"a directory of nothing", "sizes beyond a disk"}
LASTING = {"nothing", "slowly", "an SFTP packet of 4 MB"}
"""Until a channel has made no progress for a minute."""


async def test_the_lease_is_kept_and_the_others_are_done(control_plane: ControlPlane) -> None:
    async with HostileSimulator() as simulator, admin(control_plane) as client:
        cluster = Cluster(control_plane, client, simulator)
        await cluster.prepare()
        try:
            await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
            program = await replica(cluster, "one")
            async with program:
                await leads(cluster, program)
                begun = await generation(cluster)
                names = {}
                for number, (name, lie) in enumerate(LIES.items()):
                    names[f"liar-{number}"] = name
                    await cluster.instance(f"liar-{number}", await simulator.add_liar(lie))
                honest = await simulator.add_host()
                await cluster.instance("honest", honest)
                await cluster.until("honest", 60, ProxyApplied="True/Applied", Configured="True")
                # while each of them goes on being tried
                await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
                await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(honest, "kubelet"))
                for name, lie in names.items():
                    if lie in UNSEEN | LASTING:
                        continue
                    found = await cluster.until(name, 60, Configured="False")
                    assert found["Configured"][1] not in ("Fault", "UpToDate"), lie
                for name, lie in names.items():
                    if lie in LASTING:
                        assert (await cluster.conditions(name)).get("Configured", ("Unknown", ""))[0] != "True"
                assert await generation(cluster) == begun
                log = program.log()
                assert "lease not renewed" not in log
                assert "lease lost" not in log
                assert "fault of Transom" not in log
                assert PASSWORD not in log
        finally:
            await cluster.leave()


async def test_lying_ssh_servers_stop_nobody(control_plane: ControlPlane) -> None:
    """Each attacks below SFTP: the lease is kept, and the honest host gets a change while all of them are tried again.

    There are three times as many of them as workers, and half of them last until a timeout. By name the honest host is last.
    """
    async with Simulator() as simulator, admin(control_plane) as client:
        cluster = Cluster(control_plane, client, simulator)
        await cluster.prepare()
        try:
            await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
            # a login that is never answered ends soon
            program = await replica(cluster, "one", **{"login-timeout": "20s"})
            async with program:
                await leads(cluster, program)
                begun = await generation(cluster)
                honest = await simulator.add_host()
                await cluster.instance("win-1", honest)
                await cluster.until("win-1", PATIENCE, ProxyApplied="True/Applied", Configured="True")
                with run_servers(*SERVERS) as ports:
                    names = {f"liar-{number}": name for number, name in enumerate(ports)}
                    for liar, name in names.items():
                        await cluster.instance(liar, None, address="127.0.0.1", port=ports[name], username="Administrator")
                    for liar, name in names.items():
                        if not SERVERS[name].lets_in:
                            await cluster.until(liar, PATIENCE, Reachable="False")
                    await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
                    await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(honest, "kubelet"))
                    for liar in names:
                        assert (await cluster.conditions(liar)).get("Configured", ("Unknown", ""))[0] != "True"
                    assert await generation(cluster) == begun
                log = program.log()
                for word in ("lease not renewed", "lease lost", "fault of Transom", PASSWORD):
                    assert word not in log
        finally:
            await cluster.leave()


async def test_a_fault_of_transom_does_not_leave_the_last_good_word(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pass, and after it: what the exception says may quote the host, and is nowhere."""
    hosts = [await cluster.simulator.add_host() for _ in range(2)]
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    for number, host in enumerate(hosts, 1):
        await cluster.instance(f"win-{number}", host)
    async with cluster.operator(controllers=("egress", "hosts")):
        for name in ("win-1", "win-2"):
            await cluster.until(name, ProxyApplied="True/Applied", Configured="True/UpToDate")

        after_pass, build_convergence = status.build_pass_conditions, proxy_only.build_convergence

        def fails(egress: Any, found: PassResult) -> Any:
            if found.before is not None and found.before.computer_name == hosts[0].name:
                raise KeyError(PASSWORD)
            return after_pass(egress, found)

        def fails_within(target: Any, *more: Any, **options: Any) -> Convergence:
            def check(actual: Any) -> None:
                if actual.computer_name == hosts[1].name:
                    raise ValueError(PASSWORD)

            return build_convergence(target, *more, **{**options, "check": check})

        monkeypatch.setattr(status, "build_pass_conditions", fails)
        monkeypatch.setattr(proxy_only, "build_convergence", fails_within)
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        for name in ("win-1", "win-2"):
            found = await cluster.until(name, Configured="Unknown/Fault", ProxyApplied="Unknown/Fault")
            assert found["TrustApplied"] == ("Unknown", "Fault")
            await until_event(cluster, name, "Fault")
        monkeypatch.undo()
        for name in ("win-1", "win-2"):
            await cluster.until(name, 60, Configured="True/UpToDate", ProxyApplied="True/Applied")
    told = [str(item.value) for item in (await cluster.client.list_objects(WINDOWS_INSTANCES, cluster.namespace)).items]
    streams = capsys.readouterr()
    assert "KeyError" in caplog.text + streams.out + streams.err
    assert PASSWORD not in caplog.text + streams.out + streams.err + "".join(told)


async def until_event(cluster: Cluster, name: str, reason: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while reason not in [event[1] for event in await cluster.events(name)]:
            await asyncio.sleep(0.05)
