"""Which Node a host is, on a real API server: hosts and kubelets that lie touch nothing, and honest hosts join."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from tests.support.operator.clusters import Cluster
from tests.support.operator.gate import gate_to
from tests.support.operator.kubelets import WHOLE_NODES
from tests.support.operator.limited import limited
from tests.support.operator.nodes import QUICK, SUBNET, bare, node_of, published, reasons, registered, tokens_of
from tests.support.operator.pods import PODS, ended, pod
from tests.support.operator.requests import approved, ask, holder, token, until_approved, until_refused
from tests.support.waiting import PATIENCE, until
from tests.support.workers.hosts import everything_of
from tests.support.workers.payloads import write
from tests.windows.node_certificates import CLIENT_USAGES, SERVING_USAGES, pem

from transom.controllers.instance_state.node_identities import NodeIdentities
from transom.controllers.join.bootstrap_tokens import Token
from transom.controllers.runtime.cached_objects import INSTANCES, CachedInstance
from transom.controllers.runtime.controller import Leadership
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import NODES, WINDOWS_INSTANCES, Resource
from transom.manifests.roles import iter_roles
from transom.proxy.secret import Secret
from transom.windows.host.host_state import ServiceState
from transom.windows.host.queries import SERVICES
from transom.windows.nodes.node_certificates import CLIENT, SERVING
from transom.windows.nodes.node_identity import Identity
from winsim import Host

pytestmark = pytest.mark.lab
ONLY = ("hosts", "certificates", "nodes")
KUBE_SERVICES = Resource("", "v1", "Service", "services", True, UnstructuredObject)
KUBEADM = "system:bootstrappers:kubeadm:default-node-token"
BOOTSTRAP = r"C:\k\bootstrap.kubeconfig"


@pytest.fixture
async def payload(cluster: Cluster, tmp_path: Path) -> Path:
    """A payload, and a cluster that says what a host has to know; who has a bootstrap token may ask for certificates."""
    await asyncio.to_thread(cluster.control_plane.apply, list(iter_roles(cluster.namespace, ONLY)))
    await published(cluster)
    await cluster.proxy(networks={"serviceNetwork": ["10.96.0.0/16"], "podNetwork": ["10.244.0.0/16"]})
    return write(tmp_path / "payload")


async def put_node(
    cluster: Cluster, name: str, address: str = "10.0.0.1", system: str = "linux", ready: str = "True"
) -> dict[str, Any]:
    """A Node as its own kubelet made it; what is there then."""
    await cluster.put(NODES, name)
    info = {"operatingSystem": system, "kubeletVersion": "v1.36.3"}
    condition = {"type": "Ready", "status": ready, "reason": "KubeletReady"}
    status = {"conditions": [condition], "nodeInfo": info, "addresses": [{"type": "InternalIP", "address": address}]}
    await cluster.merge(NODES, name, {"status": status}, "status")
    return await whole(cluster, name)


async def whole(cluster: Cluster, name: str) -> dict[str, Any]:
    return (await cluster.client.get(WHOLE_NODES, name)).value


def called(host: Host, name: str) -> None:
    """The host says another name from now on."""
    host.name = host.name_at_boot = name


def has_to_boot(host: Host) -> None:
    host.features.clear()


async def victim(cluster: Cluster, kind: str) -> str:
    """A name that is somebody else's."""
    name = f"{kind}-{cluster.namespace}"
    match kind:
        case "control-plane":
            await put_node(cluster, name)
        case "not-ready":
            await put_node(cluster, name, "10.0.0.9", "windows", "False")
        case "anothers":
            await cluster.instance(kind, None, address="10.0.0.8", username="joe", nodeName=name, paused=True)
        case "departed":
            await put_node(cluster, name)
    return name


@pytest.mark.parametrize("kind", ["control-plane", "not-ready", "anothers", "departed"])
async def test_a_new_host_that_says_anothers_name(cluster: Cluster, payload: Path, kind: str) -> None:
    """With a boot pending; then its instance is removed. No token, no certificate, no boot; nothing of the Node changes."""
    name = await victim(cluster, kind)
    host = await bare(cluster, "win")
    called(host, name.upper())
    has_to_boot(host)
    boot = host.boot_id
    async with limited(cluster, *ONLY) as client, cluster.operator(client, controllers=ONLY, payload=payload, pace=QUICK):
        if kind == "departed":
            await cluster.instance("other", None, address="127.0.0.1", port=1, username="joe")
            await cluster.until("other", Reachable="False")
            await cluster.delete(NODES, name)
        before = await whole(cluster, name) if kind in ("control-plane", "not-ready") else None
        if before is not None:
            await pod(cluster, name)
        await cluster.instance("win-1", host, lifecycle="Node")
        await cluster.until("win-1", Configured="False/NodeNameTaken", NodeReady="Unknown")
        await cluster.says("win-1", name)
        # it has looked again, and found the same
        connections = host.traffic.connections
        await until(lambda: host.traffic.connections > connections + 1)
        assert host.boot_id == boot
        assert host.services.find("kubelet") is None
        assert not host.files.exists(BOOTSTRAP)
        assert await tokens_of(cluster, "win-1") == 0
        assert "nodeName" not in await cluster.status("win-1")
        await cluster.delete(WINDOWS_INSTANCES, "win-1")
        await cluster.gone("win-1")
    told = set(await reasons(cluster, "win-1"))
    assert "NodeNameTaken" in told
    assert not told & {"Cordoned", "Draining", "Drained", "NodeRemoved", "Rebooting"}
    if before is not None:
        assert await whole(cluster, name) == before
        await cluster.client.get(PODS, "busy", cluster.namespace)
        await ended(cluster)


@pytest.mark.parametrize("kind", ["control-plane", "not-ready", "anothers", "free"])
async def test_a_joined_host_that_says_anothers_name(cluster: Cluster, payload: Path, kind: str) -> None:
    """It stays the Node that it was, and only that one is drained and removed with its instance."""
    name = await victim(cluster, kind)
    host = await bare(cluster, "win")
    before = await whole(cluster, name) if kind in ("control-plane", "not-ready") else None
    async with cluster.operator(payload=payload, pace=QUICK, controllers=ONLY):
        await joins(cluster, "win-1", host)
        uid = (await cluster.status("win-1"))["nodeUID"]
        boot, own = host.boot_id, node_of(host)
        called(host, name)
        has_to_boot(host)
        await touch(cluster, "win-1")
        reason = "NodeNameChanged" if kind == "free" else "NodeNameTaken"
        await cluster.until("win-1", Configured=f"False/{reason}", NodeReady="True")
        await cluster.says("win-1", f"it is Node {own}")
        status = await cluster.status("win-1")
        assert (status["nodeName"], status["nodeUID"], host.boot_id) == (own, uid, boot)
        await cluster.delete(WINDOWS_INSTANCES, "win-1")
        await cluster.gone("win-1")
    with pytest.raises(NotFound):
        await whole(cluster, own)
    if before is not None:
        assert await whole(cluster, name) == before
    told = [text for _, _, text in await cluster.events("win-1")]
    assert not [text for text in told if f"Node {name} takes no pods" in text or f"Node {name} was this" in text]


async def test_a_person_clears_the_name(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "win")
    async with cluster.operator(payload=payload, pace=QUICK, controllers=ONLY):
        await joins(cluster, "win-1", host)
        before = node_of(host)
        called(host, f"new-{cluster.namespace}")
        await touch(cluster, "win-1")
        await cluster.until("win-1", Configured="False/NodeNameChanged")
        await cluster.merge(INSTANCES, "win-1", {"status": {"nodeName": None}}, "status")
        await cluster.until("win-1", NodeReady="False/Registering")
        status = await cluster.status("win-1")
        assert (status["nodeName"], status["nodeProof"], "nodeUID" in status) == (host.name, "Name", False)
    assert await whole(cluster, before)


async def test_what_a_kubelet_says_of_its_own_node(cluster: Cluster, payload: Path) -> None:
    """Another instance's annotation and address, another system: each instance keeps its own Node, and nothing else."""
    good, evil = await bare(cluster, "good"), await bare(cluster, "evil")
    async with cluster.operator(payload=payload, pace=QUICK, controllers=ONLY):
        await asyncio.gather(joins(cluster, "good", good), joins(cluster, "evil", evil))
        uids = {name: (await cluster.status(name))["nodeUID"] for name in ("good", "evil")}
        lie = {"transom.dev/instance": f"{cluster.namespace}/good"}
        await cluster.merge(NODES, node_of(evil), {"metadata": {"annotations": lie}})
        addresses = [{"type": "InternalIP", "address": good.address}]
        said = {"addresses": addresses, "nodeInfo": {"operatingSystem": "linux"}}
        await cluster.merge(NODES, node_of(evil), {"status": said}, "status")
        before = await whole(cluster, node_of(evil))
        # one that comes later, and has nothing recorded yet, is neither of the two
        await cluster.instance("late", None, address=good.address, port=1, username="joe")
        await cluster.until("late", Reachable="False/Unreachable", NodeReady="Unknown/NodeNameTaken")
        await cluster.says("late", f"WindowsInstance {cluster.namespace}/good", condition="NodeReady")
        for name in ("good", "evil"):
            await touch(cluster, name)
        assert await cluster.told("evil", "NodeMarkedForeign")
        assert (await whole(cluster, node_of(evil)))["metadata"]["annotations"] | lie == before["metadata"]["annotations"]
        assert {name: (await cluster.status(name))["nodeUID"] for name in ("good", "evil")} == uids
        await cluster.delete(WINDOWS_INSTANCES, "good")
        await cluster.gone("good")
        assert (await whole(cluster, node_of(evil)))["metadata"]["uid"] == uids["evil"]
        await cluster.delete(WINDOWS_INSTANCES, "evil")
        await cluster.gone("evil")
    for host in (good, evil):
        with pytest.raises(NotFound):
            await whole(cluster, node_of(host))


async def test_two_nodes_at_one_address_are_neither(cluster: Cluster) -> None:
    """A host of lifecycle Egress is found by its address, in any spelling; a Linux Node there is none."""
    host = await cluster.simulator.add_host(address=cluster.free_address())
    names = [f"{item}-{cluster.namespace}" for item in ("a", "b", "l")]
    await put_node(cluster, names[2], host.address)
    await put_node(cluster, names[0], f"::ffff:{host.address}", "windows")
    await cluster.instance("win-1", host)
    async with cluster.operator(controllers=("hosts",), pace=QUICK):
        await cluster.until("win-1", Configured="True", NodeReady="True/KubeletReady")
        status = await cluster.status("win-1")
        assert (status["nodeName"], status["nodeProof"], status["hostAddress"]) == (names[0], "Address", host.address)
        # decided once
        await put_node(cluster, names[1], host.address, "windows")
        await cluster.instance("other", None, address=host.address, port=1, username="joe")
        await cluster.until("other", NodeReady="Unknown/NodeAddressAmbiguous")
        await cluster.says("other", "spec.nodeName", condition="NodeReady")
        await touch(cluster, "win-1")
        assert (await cluster.status("win-1"))["nodeName"] == names[0]
        await cluster.instance("other", None, address=host.address, port=1, username="joe", nodeName=names[1])
        await cluster.until("other", NodeReady="True/KubeletReady")
    for name in names:
        await cluster.delete(NODES, name)


async def between(host: Host) -> asyncio.Server:
    """A jump host or an address translator before a host: bytes there and back."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host.address, host.port)
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    return await asyncio.start_server(accept, "127.0.0.1", 0)


@pytest.mark.parametrize("way", ["second card", "translated", "by name", "IPv6"])
async def test_honest_hosts_join_whatever_is_between(cluster: Cluster, payload: Path, way: str) -> None:
    spec: dict[str, Any] = {"lifecycle": "Node", "username": "Administrator"}
    address = {"IPv6": "::1", "by name": "127.0.0.1"}.get(way) or cluster.free_address()
    host = await bare(cluster, "win", address)
    only_reached = await between(host)
    node_address = address
    match way:
        case "second card":
            node_address = "10.20.0.7"
            spec |= {"address": host.address, "port": host.port, "nodeIP": node_address}
        case "translated":
            spec |= {"address": "127.0.0.1", "port": only_reached.sockets[0].getsockname()[1]}
        case "by name":
            spec |= {"address": "localhost", "port": host.port}
        case "IPv6":
            spec |= {"address": "0:0:0:0:0:0:0:1", "port": host.port}
    async with limited(cluster, *ONLY) as client, cluster.operator(client, controllers=ONLY, payload=payload, pace=QUICK):
        await cluster.instance("win-1", None, **spec)
        if way == "translated":
            await cluster.until("win-1", Configured="False/NodeAddressUnknown")
            await cluster.says("win-1", f"own address is {host.address}", "spec.nodeIP")
            assert host.services.find("kubelet") is None
            await cluster.instance("win-1", None, **spec, nodeIP=host.address)
        await cluster.until("win-1", NodeReady="False/Registering", Configured="False/Waiting")
        assert host.services.get("kubelet").state is ServiceState.RUNNING
        command = host.registry.find_value(rf"{SERVICES}\kubelet", "ImagePath")
        assert command is not None and f"--node-ip={node_address} " in command.decode_text()
        await certified(cluster, "win-1", host, () if way == "by name" else (node_address,))
        await registered(cluster, host, addresses=[node_address], **SUBNET)
        await joined(cluster, "win-1", host)
        status = await cluster.status("win-1")
        assert (status["nodeName"], status["nodeProof"]) == (node_of(host), "Certificate")
        assert status["nodeUID"] == (await whole(cluster, node_of(host)))["metadata"]["uid"]
        assert status["hostAddress"] == ("127.0.0.1" if way == "translated" else address)
    only_reached.close()


async def test_a_node_that_was_deleted_comes_back_and_nobody_takes_its_place(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "win")
    async with cluster.operator(payload=payload, pace=QUICK, controllers=ONLY):
        await joins(cluster, "win-1", host)
        first = (await cluster.status("win-1"))["nodeUID"]
        await cluster.delete(NODES, node_of(host))
        await cluster.until("win-1", NodeReady="False/Registering")
        other = await put_node(cluster, node_of(host))
        await cluster.until("win-1", Configured="False/NodeNameTaken")
        assert await whole(cluster, node_of(host)) == other
        await cluster.delete(NODES, node_of(host))
        await cluster.until("win-1", NodeReady="False/Registering")
        await until(lambda: host.files.exists(BOOTSTRAP))
        await certified(cluster, "win-1", host, (host.address,), "again")
        await registered(cluster, host, **SUBNET)
        await joined(cluster, "win-1", host)
        assert (await cluster.status("win-1"))["nodeUID"] not in (first, other["metadata"]["uid"])


async def test_a_host_whose_instance_goes_while_it_is_read_stays_as_it_is(
    cluster: Cluster, payload: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by an uninstallation that leaves hosts: one without an instance was taken for one that has yet to join."""
    host, going = await bare(cluster, "win"), asyncio.Event()
    settle = NodeIdentities.resolve_and_record

    async def late(
        self: NodeIdentities, cached: CachedInstance, leadership: Leadership, *, reported_name: str = "", **more: str
    ) -> tuple[Identity, CachedInstance]:
        if reported_name and going.is_set():
            await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"finalizers": None}})
            await cluster.delete(WINDOWS_INSTANCES, "win-1")
            await until(lambda: next(self.iter_instances_named(node_of(host)), None) is None)
        return await settle(self, cached, leadership, reported_name=reported_name, **more)

    monkeypatch.setattr(NodeIdentities, "resolve_and_record", late)
    async with cluster.operator(payload=payload, pace=QUICK, controllers=ONLY) as operator:
        await joins(cluster, "win-1", host)
        await until(lambda: not operator.controllers["nodes"].queue.working)
        before, tokens = everything_of(host), await tokens_of(cluster, "win-1")
        going.set()
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"annotations": {"transom.dev/leave-host": "true"}}})
        await cluster.gone("win-1")
        await until(lambda: not operator.controllers["nodes"].queue.working)
    assert everything_of(host) == before
    assert await tokens_of(cluster, "win-1") == tokens


async def test_another_leader_knows_what_was_approved(cluster: Cluster, payload: Path) -> None:
    """The record is written before the approval: an operator that ends in between is followed by one that knows the Node."""
    host = await bare(cluster, "win")
    plane = cluster.control_plane
    seen: list[dict[str, Any]] = []

    def refuse(request: web.Request) -> web.Response | None:
        return web.Response(status=500) if request.method == "PATCH" and request.path.endswith("/approval") else None

    async with gate_to(plane.url, plane.directory) as gate:
        connection = connect(str(plane.write_kubeconfig(f"gated-{cluster.namespace}", plane.admin_token, server=gate.url)))
        gate.answer = refuse
        async with cluster.operator(Client(connection), payload=payload, pace=QUICK, controllers=ONLY):
            await cluster.instance("win-1", host, lifecycle="Node")
            await cluster.until("win-1", NodeReady="False/Registering")
            await asks(cluster, host, "early")
            await until(lambda: any("/approval" in request for request in gate.requests))
            seen.append(await cluster.status("win-1"))
        await connection.close()
    assert (seen[0]["nodeName"], seen[0]["nodeProof"]) == (node_of(host), "Certificate")
    async with cluster.operator(payload=payload, pace=QUICK, controllers=ONLY):
        await until_approved(cluster, "early")
        # it came while nobody looked, and says nothing of where it is
        await registered(cluster, host, addresses=["10.9.9.9"], **SUBNET)
        await cluster.until("win-1", NodeReady="True/KubeletReady", Configured="True/UpToDate")
        # an edit of spec.nodeName moves nothing that has joined
        await cluster.merge(INSTANCES, "win-1", {"spec": {"nodeName": f"x-{cluster.namespace}"}})
        await cluster.until("win-1", Configured="False/NodeNameChanged")
        assert (await cluster.status("win-1"))["nodeName"] == node_of(host)


async def test_two_hosts_that_say_one_name_at_once(cluster: Cluster, payload: Path) -> None:
    hosts = [await bare(cluster, f"win{number}") for number in range(4)]
    for host in hosts:
        called(host, f"same-{cluster.namespace}")
    async with cluster.operator(payload=payload, pace=QUICK, controllers=ONLY):
        for number, host in enumerate(hosts):
            await cluster.instance(f"win-{number}", host, lifecycle="Node")
        async with asyncio.timeout(PATIENCE):
            while True:
                found = [(await cluster.conditions(f"win-{number}")).get("Configured", ("", ""))[1] for number in range(4)]
                if found.count("NodeNameTaken") == 3 and found.count("Waiting") == 1:
                    break
                await asyncio.sleep(0.05)
        named = [item for item in range(4) if (await cluster.status(f"win-{item}")).get("nodeName")]
    assert [number for number in range(4) if found[number] == "Waiting"] == named
    assert [await tokens_of(cluster, f"win-{number}") for number in range(4)] == [int(item in named) for item in range(4)]


SAID = ["kubernetes", "kubernetes.default.svc", "api.corp.example", "a b", "x/../../y", "system:node:x"]


async def test_no_client_certificate_for_a_name_that_is_not_the_hosts(cluster: Cluster, payload: Path) -> None:
    """Whatever a host says that it is called: not with the token of its own instance either."""
    said = {f"evil-{number}": name for number, name in enumerate(SAID)}
    names = {item: f"{item}-{cluster.namespace}" for item in ("egress", "theirs", "departed")}
    said |= {f"evil-{item}": name for item, name in names.items()}
    await put_node(cluster, names["departed"])
    await put_node(cluster, names["theirs"], "10.0.0.9", "windows", "False")
    await put_node(cluster, names["egress"], "127.0.0.1", "windows", "False")
    async with cluster.operator(payload=payload, pace=QUICK, controllers=ONLY) as operator:
        await cluster.instance("egress", None, address="127.0.0.1", port=1, username="joe")
        await cluster.until("egress", NodeReady="False")
        await cluster.delete(NODES, names["departed"])
        for instance, name in said.items():
            host = await bare(cluster, instance)
            called(host, name)
            await cluster.instance(instance, host, lifecycle="Node")
        for instance, name in said.items():
            wrong = "Taken" if name in ("kubernetes", *names.values()) else "Invalid"
            await cluster.until(instance, Configured=f"False/NodeName{wrong}")
            made = await token(cluster, operator, instance)
            async with holder(cluster, made) as client:
                await ask(cluster, client, instance, pem(f"system:node:{name}"), CLIENT, CLIENT_USAGES)
        for instance in said:
            await until_refused(cluster, instance, instance, "")


async def test_no_serving_certificate_for_what_is_not_the_hosts(cluster: Cluster, payload: Path) -> None:
    host, other = await bare(cluster, "win"), await bare(cluster, "other")
    service = {"ports": [{"port": 443}], "selector": {}, "externalIPs": ["10.0.0.30"]}
    await put_node(cluster, f"linux-{cluster.namespace}", "10.0.0.1")
    await cluster.put(KUBE_SERVICES, "web", spec=service)
    by_name = await bare(cluster, "byname", "127.0.0.1")
    options: dict[str, Any] = {"controllers": ONLY, "payload": payload, "pace": QUICK}
    async with limited(cluster, *ONLY) as client, cluster.operator(client, **options) as operator:
        await joins(cluster, "win-1", host)
        await joins(cluster, "win-2", other)
        spec = {"address": "localhost", "port": by_name.port, "username": "Administrator"}
        await cluster.instance("by-name", None, lifecycle="Node", **spec)
        await cluster.until("by-name", NodeReady="False/Registering")
        listed = (await cluster.client.get(KUBE_SERVICES, "web", cluster.namespace)).value["spec"]["clusterIP"]
        refused = ["10.96.0.1", listed, "10.0.0.30", "10.0.0.1", other.address, "10.9.9.9"]
        refused += ["kubernetes.default.svc", "web", node_of(other), f"linux-{cluster.namespace}", "*.corp.example"]
        for number, san in enumerate(refused):
            await serving(cluster, host, f"wrong-{number}", (node_of(host), san))
        # what the name leads to is the API server's
        for number, san in enumerate(("localhost", "127.0.0.1", "10.96.0.1")):
            await serving(cluster, by_name, f"name-{number}", (node_of(by_name), san))
        await serving(cluster, host, "right", (node_of(host), host.address))
        await until_approved(cluster, "right")
        queue = operator.controllers["certificates"].queue
        await until(lambda: not queue.working and not len(queue))
        wrong = [*(f"wrong-{number}" for number in range(len(refused))), *(f"name-{number}" for number in range(3))]
        assert [name for name in wrong if await approved(cluster, name)] == []
        for about in ("win-1", "by-name"):
            assert await cluster.told(about, "CertificateRefused")


async def test_a_linux_nodes_request_is_nobodys_alarm(cluster: Cluster, payload: Path) -> None:
    host = await bare(cluster, "win")
    linux = f"system:node:linux-{cluster.namespace}"
    of_kubeadm = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "kubeadm:kubelet-bootstrap"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"kind": "Group", "name": KUBEADM, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    await asyncio.to_thread(cluster.control_plane.apply, [of_kubeadm])
    async with cluster.operator(payload=payload, pace=QUICK, controllers=ONLY):
        await joins(cluster, "win-1", host)
        assert await cluster.told("win-1", "CertificateApproved")
        wrong = (pem(linux, sans=("x", host.address)), pem(linux, ("system:masters",)))
        for number, body in enumerate(wrong):
            async with acting(cluster, "system:bootstrap:kubead", KUBEADM) as client:
                await ask(cluster, client, f"linux-client-{number}", body, CLIENT, CLIENT_USAGES)
        async with acting(cluster, linux, "system:nodes") as client:
            await ask(cluster, client, "linux-serving", wrong[0], SERVING, SERVING_USAGES)
        # one that is judged after them
        await serving(cluster, host, "right", (node_of(host), host.address))
        await until_approved(cluster, "right")
        assert [reason for reason in await reasons(cluster, "win-1") if reason == "CertificateRefused"] == []


@contextlib.asynccontextmanager
async def acting(cluster: Cluster, user: str, group: str) -> AsyncIterator[Client]:
    """A client that is somebody else to the API server."""
    connection = connect(str(cluster.control_plane.kubeconfig))
    connection.transport.headers.update({"Impersonate-User": user, "Impersonate-Group": group})
    try:
        yield Client(connection)
    finally:
        await connection.close()


async def serving(cluster: Cluster, host: Host, request: str, sans: tuple[str, ...]) -> None:
    """A kubelet asks for its serving certificate."""
    user = f"system:node:{node_of(host)}"
    async with acting(cluster, user, "system:nodes") as client:
        await ask(cluster, client, request, pem(user, sans=sans), SERVING, SERVING_USAGES)


async def asks(cluster: Cluster, host: Host, request: str) -> None:
    """What a kubelet does first: it asks for a client certificate with the token that lies on its host."""
    config = yaml.safe_load(host.files.read(BOOTSTRAP))
    text = config["users"][0]["user"]["token"]
    async with holder(cluster, Token(f"{text.partition('.')[0]}-{request}", Secret(text))) as client:
        await ask(cluster, client, request, pem(f"system:node:{node_of(host)}"), CLIENT, CLIENT_USAGES)


async def certified(cluster: Cluster, name: str, host: Host, addresses: tuple[str, ...], again: str = "") -> None:
    """Both certificates of a kubelet: the client's by its token, the serving one as the node."""
    await asks(cluster, host, f"client-{name}{again}")
    await until_approved(cluster, f"client-{name}{again}")
    await serving(cluster, host, f"serving-{name}{again}", (node_of(host), *addresses))
    await until_approved(cluster, f"serving-{name}{again}")


async def joins(cluster: Cluster, name: str, host: Host) -> None:
    """A host of lifecycle Node becomes one, as its kubelet does it."""
    await cluster.instance(name, host, lifecycle="Node")
    await cluster.until(name, NodeReady="False/Registering")
    await certified(cluster, name, host, (host.address,))
    await registered(cluster, host, **SUBNET)
    await joined(cluster, name, host)


async def joined(cluster: Cluster, name: str, host: Host) -> None:
    """Its Node is Ready, and recorded: the record is a write of its own, a moment before or after."""
    await cluster.until(name, NodeReady="True/KubeletReady", Configured="True/UpToDate")
    uid = (await whole(cluster, node_of(host)))["metadata"]["uid"]

    async def recorded() -> bool:
        return (await cluster.status(name)).get("nodeUID") == uid

    await until(recorded)


async def touch(cluster: Cluster, name: str) -> None:
    """Have a host looked at now."""
    await cluster.merge(WINDOWS_INSTANCES, name, {"metadata": {"annotations": {"test/touched": "yes"}}})
