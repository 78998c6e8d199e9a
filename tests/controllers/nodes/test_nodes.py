"""From SSH and nothing else to a node: simulated hosts, a real API server, and the test in the part of the kubelet."""

import asyncio
import base64
import re
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncssh
import msgspec
import pytest
import yaml
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.limited import limited
from tests.support.operator.nodes import QUICK, SUBNET, WHOLE_NODES, bare, node_of, reasons, registered, tokens_of
from tests.support.operator.programs import Program
from tests.support.waiting import PATIENCE, until
from tests.support.workers.payloads import TEXT, write

from transom.controllers.runtime.options import HostTimings
from transom.kube.errors import NotFound
from transom.kube.resources import CONFIG_MAPS, LEASES, SECRETS, WINDOWS_INSTANCES
from transom.operations.metrics import OperatorMetrics
from transom.windows.host.host_state import ServiceState
from transom.windows.host.queries import SERVICES
from transom.windows.registry.edits import SetValue
from transom.windows.registry.values import build_sz
from winsim import Fault, Host

pytestmark = pytest.mark.lab


async def whole(cluster: Cluster, host: Host) -> dict[str, Any]:
    return (await cluster.client.get(WHOLE_NODES, node_of(host))).value


def services(host: Host) -> set[str]:
    return {key.path for key in host.registry.list_keys_below(SERVICES)}


async def test_from_ssh_to_a_node(cluster: Cluster, payload: Path) -> None:
    """Files, services in order, proxy before the first start, what waits for the Node; then the Node's marks."""
    host = await bare(cluster, "win")
    only = ("hosts", "certificates", "nodes")
    async with limited(cluster, *only) as client, cluster.operator(client, controllers=only, payload=payload, pace=QUICK):
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.until("win-1", NodeReady="False/Registering", Configured="False/Waiting")
        status = await cluster.status("win-1")
        assert status["nodeName"] == node_of(host)
        assert status["payloadVersion"] == "1.36.3-1"
        waits = next(condition["message"] for condition in status["conditions"] if condition["type"] == "Configured")
        assert waits.startswith("kube-proxy waits for")
        assert host.services.get("kubelet").state is ServiceState.RUNNING
        assert [start.environment["HTTPS_PROXY"] for start in host.starts("containerd")] == [PROXY]
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet")
        config = host.files.read(r"C:\k\bootstrap.kubeconfig").decode()
        token = yaml.safe_load(config)["users"][0]["user"]["token"]
        held = (await cluster.client.get(SECRETS, f"bootstrap-token-{token.partition('.')[0]}", "kube-system")).value
        assert base64.b64decode(held["data"]["auth-extra-groups"]) == b"system:bootstrappers:transom"
        expiration = datetime.fromisoformat(base64.b64decode(held["data"]["expiration"]).decode())
        assert expiration.tzinfo is not None
        await registered(cluster, host, **SUBNET)
        await cluster.until("win-1", NodeReady="True/KubeletReady", Configured="True/UpToDate")
        node = await whole(cluster, host)
        await until(lambda: not host.files.exists(r"C:\k\bootstrap.kubeconfig"))
        assert len(host.starts("kubelet")) == 1
        assert host.services.get("kube-proxy").state is ServiceState.RUNNING
        marks = node["metadata"]["annotations"]
        assert marks["transom.dev/payload-version"] == "1.36.3-1"
        assert marks["transom.dev/instance"] == f"{cluster.namespace}/win-1"
        assert node["metadata"]["labels"]["node-role.kubernetes.io/worker"] == ""
        with pytest.raises(NotFound):
            await cluster.client.get(SECRETS, "bootstrap-win-1", cluster.namespace)
    told = await reasons(cluster, "win-1")
    assert {"Sending", "Changing", "Applied"} <= set(told)
    assert token.partition(".")[2] not in str(await cluster.events("win-1")) + str(status)
    assert host.unknown == []


async def test_what_somebody_changes_on_a_node_is_put_right_and_told(cluster: Cluster, payload: Path) -> None:
    """A service's command, a service that was stopped, a file: at the next check of a node, by one connection."""
    host = await bare(cluster, "win")
    write(payload, TEXT.replace("--source-vip=", "--pause=${PAUSE_IMAGE} --source-vip="))
    metadata = {"name": "windows-worker", "namespace": cluster.namespace}
    await cluster.put(CONFIG_MAPS, "windows-worker", metadata=metadata, data={"PAUSE_IMAGE": "first"})
    assert HostTimings().node_check * 1.1 < 600
    async with cluster.operator(payload=payload, pace=msgspec.structs.replace(QUICK, node_check=1.0)):
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.until("win-1", NodeReady="False/Registering")
        await registered(cluster, host, **SUBNET)
        await cluster.until("win-1", NodeReady="True/KubeletReady", Configured="True/UpToDate")
        assert "PutRight" not in await reasons(cluster, "win-1")

        async def only_looked_at() -> bool:
            """Whether each of the next connections, some three, had one channel."""
            before, files = (host.traffic.connections, host.traffic.channels), host.traffic.sftp_sessions
            await until(lambda: host.traffic.connections >= before[0] + 3)
            checks, channels = host.traffic.connections - before[0], host.traffic.channels - before[1]
            return channels <= checks and host.traffic.sftp_sessions == files

        # a look counts when a pass has found nothing to do after the last change of the Node
        await until(only_looked_at)
        key = rf"{SERVICES}\kube-proxy"

        async def put_right() -> str:
            return " ".join(message for _, reason, message in await cluster.events("win-1") if reason == "PutRight")

        # what a person has asked for is not put right
        await cluster.merge(CONFIG_MAPS, "windows-worker", {"data": {"PAUSE_IMAGE": "second"}})
        await until(lambda: "--pause=second" in (host.registry.find_value(key, "ImagePath") or build_sz("")).decode_text())
        await cluster.until("win-1", Configured="True/UpToDate")
        host.services.stop("kube-proxy")
        async with asyncio.timeout(60):
            while "kube-proxy: it does not run" not in await put_right():
                await asyncio.sleep(0.05)
        assert "ImagePath" not in await put_right()
        await until(lambda: host.services.get("kube-proxy").state is ServiceState.RUNNING)
        right = host.registry.find_value(key, "ImagePath")
        host.registry = host.registry.apply_edits([SetValue(key, "ImagePath", build_sz(r"C:\theirs.exe"))])
        host.files.write(r"C:\k\cni\conf\10-net.conf", b"theirs")
        await until(lambda: host.registry.find_value(key, "ImagePath") == right)
        await until(lambda: b"10.132.0.0/24" in host.files.read(r"C:\k\cni\conf\10-net.conf"))

        async def told() -> bool:
            said = await put_right()
            return all(
                item in said
                for item in (
                    "kube-proxy: its configuration differs: ImagePath",
                    r"C:\k\cni\conf\10-net.conf: drift: changed after Transom sent it",
                )
            )

        await until(told)


async def test_without_a_proxy_there_is_no_trace_of_one(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "win")
    await cluster.proxy(networks={"serviceNetwork": ["10.96.0.0/16"], "podNetwork": ["10.244.0.0/16"]})
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.until("win-1", NodeReady="False/Registering")
        await registered(cluster, host, **SUBNET)
        await cluster.until("win-1", NodeReady="True", Configured="True/UpToDate", ProxyApplied="True/NotConfigured")
    told = await reasons(cluster, "win-1")
    assert "Applied" in told
    assert "Removed" not in told
    found = [
        (key.path, named.name, named.value.data.decode("utf-16-le", "replace"))
        for key in host.registry
        for named in (key.values or {}).values()
    ]
    variables = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    assert [
        (path, name) for path, name, text in found if any(variable in f"{name} {text}".upper() for variable in variables)
    ] == []
    assert [key.path for key in host.registry if "\\ROOT\\Certificates\\" in key.path] == []


async def test_why_a_host_is_not_touched(cluster: Cluster, tmp_path: Path) -> None:
    """Skew, a broken payload, an API server that nobody names: said, and nothing done."""
    host = await bare(cluster, "win")
    await cluster.instance("win-1", host, lifecycle="Node")
    newer = write(tmp_path / "newer", TEXT.replace("kubernetes: v1.36.3", "kubernetes: v1.99.0"))
    broken = write(tmp_path / "broken", TEXT.replace("dependsOn", "dependson"))
    good = write(tmp_path / "good")
    await asyncio.to_thread(
        cluster.control_plane.run_kubectl, "delete", "configmap", "-n", "kube-public", "cluster-info", "--ignore-not-found"
    )
    for path, reason in ((newer, "VersionSkew"), (broken, "PayloadInvalid"), (good, "ApiServerUnknown")):
        async with cluster.operator(payload=path, pace=QUICK):
            await cluster.until("win-1", Configured=f"False/{reason}")
        assert reason in await reasons(cluster, "win-1")
    assert host.traffic.connections == 0
    async with cluster.operator(pace=QUICK):
        await cluster.until("win-1", Configured="False/PayloadMissing")


async def test_a_key_that_opens_nothing_and_the_right_one(cluster: Cluster, payload: Path) -> None:
    """Missing, garbage, somebody else's: said, and taken up as soon as it is right."""
    host = await bare(cluster, "win")
    await cluster.delete(SECRETS, "cloud-private-key")
    await cluster.instance("win-1", host, lifecycle="Node")
    other = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    async with cluster.operator(payload=payload, pace=QUICK) as operator:
        metrics = OperatorMetrics()
        metrics.register_operator(operator)
        await cluster.until("win-1", Configured="False/KeyMissing")
        await until(lambda: b'transom_hosts_unconfigured{reason="KeyMissing"} 1.0' in metrics.render())
        await cluster.put_key("-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\n")
        await cluster.until("win-1", Configured="False/KeyInvalid")
        await cluster.put_key(other.export_private_key("pkcs8-pem", passphrase="hunter2").decode())
        await cluster.until("win-1", Configured="False/KeyInvalid")
        assert host.traffic.connections == 0
        await cluster.put_key(other.export_private_key("pkcs1-pem").decode())
        await cluster.until("win-1", Configured="False/AuthenticationRefused", Reachable="False")
        await cluster.put_key()
        await cluster.until("win-1", NodeReady="False/Registering")
    told = await reasons(cluster, "win-1")
    assert {"KeyMissing", "KeyInvalid", "AuthenticationRefused"} <= set(told)
    assert "hunter2" not in str(await cluster.events("win-1")) + str(await cluster.status("win-1"))


async def test_a_node_that_is_never_ready(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "win")
    await cluster.instance("win-1", host, lifecycle="Node")
    pace = HostTimings(unready=0.2, ready=0.5)
    async with cluster.operator(payload=payload, pace=pace):
        await cluster.until("win-1", NodeReady="False/NeverReady")
        await registered(cluster, host, "False", **SUBNET)
        await cluster.until("win-1", Configured="True/UpToDate", NodeReady="False/NeverReady")
        await cluster.says("win-1", f"Node {node_of(host)} is not Ready", condition="NodeReady")
        await registered(cluster, host, **SUBNET)
        await cluster.until("win-1", NodeReady="True/KubeletReady")
    assert "NeverReady" in await reasons(cluster, "win-1")


async def test_a_host_gets_its_machines_name_by_one_boot(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "other")
    wanted = f"winworker-{cluster.namespace[-2:].strip('-')}"
    boot = host.boot_id
    await cluster.instance("win-1", host, lifecycle="Node", nodeName=wanted)
    await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"annotations": {"transom.dev/host-name": wanted}}})
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.until("win-1", NodeReady="False/Registering", RebootRequired="False")
    assert host.name.lower() == wanted
    assert host.boot_id == boot + 1
    assert (await cluster.status("win-1"))["nodeName"] == wanted
    assert len(host.starts("kubelet")) == 1
    assert {"Preparing", "Rebooting", "RebootRequired"} <= set(await reasons(cluster, "win-1"))


@pytest.mark.parametrize("at", [4, 25])
async def test_a_host_that_hangs_costs_its_own_pass(cluster: Cluster, payload: Path, at: int) -> None:
    hangs, good = await bare(cluster, "hangs"), await bare(cluster, "good")
    hangs.faults.schedule_fault(Fault(at=at, when="before", action="hang"))
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.instance("hangs", hangs, lifecycle="Node")
        await cluster.instance("good", good, lifecycle="Node")
        await cluster.until("good", NodeReady="False/Registering")
        await cluster.until("hangs", NodeReady="False/Registering")
    told = set(await reasons(cluster, "hangs"))
    assert told & {"ConnectionLost", "PassTimedOut", "Unreachable"}


@pytest.mark.parametrize("step", ["Sending", "Changing"])
async def test_a_killed_operator_at_any_step(cluster: Cluster, payload: Path, step: str) -> None:
    """SIGKILL in the middle; the next process brings the host to its end."""
    host = await bare(cluster, "win")
    write(payload, sizes=3_000_000)
    host.faults.disk_delay = 0.05
    async with Program(cluster, name="first", payload=str(payload), **{"log-format": "console"}) as program:
        await cluster.instance("win-1", host, lifecycle="Node")
        found: dict[str, tuple[str, str]] = {}
        async with asyncio.timeout(PATIENCE):
            while found.get("Configured", ("", ""))[1] != step:
                await asyncio.sleep(0.02)
                found = await cluster.conditions("win-1")
        program.signal(signal.SIGKILL)
        await program.process.wait()
    # waiting for it to run out is tried elsewhere
    await cluster.delete(LEASES, "transom")
    assert r"HKEY_LOCAL_MACHINE\SYSTEM\CurrentControlSet\Services\kube-proxy" not in {key.path for key in host.registry}
    host.faults.disk_delay = 0.0
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.until("win-1", NodeReady="False/Registering")
        await registered(cluster, host, **SUBNET)
        await cluster.until("win-1", NodeReady="True", Configured="True/UpToDate")
    assert await tokens_of(cluster, "win-1") == 1


KILLS = 16
"""Places of a first configuration at which the operator is killed, one host each; with 200 it is every request."""


async def test_killed_at_any_request_the_next_one_goes_on(cluster: Cluster, payload: Path) -> None:
    """SIGKILL when hosts have got their first request, their second, and so on, and not answered; the next one joins all."""
    first = await bare(cluster, "first")
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.instance("first", first, lifecycle="Node")
        await cluster.until("first", NodeReady="False/Registering", Configured="False/Waiting")
        requests = list(first.traffic.requests)
    count = max(at for at, request in enumerate(requests, 1) if re.match(r"exec .*change", request)) + 4
    hosts = {at: await bare(cluster, f"win{at}") for at in range(1, count, max(1, count // KILLS))}
    for at, host in hosts.items():
        host.faults.schedule_fault(Fault(at=at, when="before" if at % 2 else "after", action="hang"))
        await cluster.instance(f"win-{at}", host, lifecycle="Node")
    async with Program(cluster, name="first", payload=str(payload), workers="256") as program:
        await until(lambda: all(host.faults.ordered is None for host in hosts.values()))
        program.signal(signal.SIGKILL)
        await program.process.wait()
    # waiting for it to run out is tried elsewhere
    await cluster.delete(LEASES, "transom")
    async with cluster.operator(payload=payload, pace=QUICK):
        for at, host in hosts.items():
            await cluster.until(f"win-{at}", NodeReady="False/Registering", Configured="False/Waiting")
            assert (len(host.starts("kubelet")), len(host.starts("containerd"))) == (1, 1), at
            assert host.starts("containerd")[0].environment["HTTPS_PROXY"] == PROXY, at
            assert await tokens_of(cluster, f"win-{at}") == 1, at


async def test_egress_alone_stays_egress_alone(cluster: Cluster, payload: Path) -> None:
    """A node that somebody else joined: proxy and trust, whatever the payload has."""
    host = await cluster.simulator.add_host(f"theirs-{cluster.namespace}")
    before = services(host)
    await registered(cluster, host)
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.instance("theirs", host)
        await cluster.until("theirs", ProxyApplied="True/Applied", NodeReady="True")
    node = await whole(cluster, host)
    assert not any(name.startswith("transom.dev") for name in node["metadata"].get("annotations") or {})
    assert "labels" not in node["metadata"]
    assert services(host) == before
    assert not host.files.exists(r"C:\k")
    secrets = {item.metadata.name for item in (await cluster.client.list_objects(SECRETS, cluster.namespace)).items}
    assert not [name for name in secrets if name.startswith("bootstrap-")]
    assert (await cluster.client.list_objects(CONFIG_MAPS, cluster.namespace)).items == []
