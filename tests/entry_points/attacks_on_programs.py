"""Attacks on a running operator and admission server, by what they attack: at least three variants of each kind.

Each does its worst once and raises AssertionError where it is taken for something good; the test repeats it.
"""

import asyncio
import base64
import contextlib
import itertools
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from types import MappingProxyType
from typing import Any, Final

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.entry_points.scene import TENANT, Scene
from tests.hosts.lying_servers import SERVERS
from tests.hosts.ssh.test_jump_hosts import KEY, Network, agent
from tests.kube.hostile_kubeconfigs import build_kubeconfig
from tests.operations.hostile_peers import FLOODS
from tests.support.management.management import CLUSTERS
from tests.support.management.manifests import cluster as build_cluster
from tests.support.operator.requests import REQUESTS
from tests.support.process import TRANSOM
from tests.support.strangers import STRANGER, connect_strangers
from tests.support.waiting import until
from tests.webhook.caller import of, reviewed
from tests.webhook.clusters import plain_pod
from tests.webhook.hostile_reviews import REVIEWS, BuildReview, build_pod
from tests.windows.hostile_requests import HOSTILE_REQUESTS, build_addresses, build_large

from transom.kube.errors import StatusError
from transom.kube.resources import EGRESS_PROXIES, SECRETS, WINDOWS_INSTANCES
from transom.windows.nodes.windows_instance import SERVING

Attack = Callable[[Scene], Awaitable[None]]
_NUMBERS: Final = itertools.count(1)


# --- SSH servers


def by_server(name: str) -> Attack:
    """Return an attack by an SSH server that lies: an instance leads to it, and is never configured."""

    async def attack(scene: Scene) -> None:
        instance = f"evil-{next(_NUMBERS)}"
        port = scene.servers[name]
        await scene.cluster.instance(instance, None, address="127.0.0.1", port=port, username="Administrator")
        try:
            conditions = await scene.cluster.until(instance, Configured="False")
            assert SERVERS[name].lets_in or conditions["Reachable"][0] == "False"
        finally:
            await remove_instance(scene, instance)

    return attack


async def remove_instance(scene: Scene, name: str) -> None:
    """Delete an instance whose host nobody restores."""
    await scene.cluster.delete(WINDOWS_INSTANCES, name)
    with contextlib.suppress(StatusError):
        await scene.cluster.merge(WINDOWS_INSTANCES, name, {"metadata": {"finalizers": None}})


def list_servers(*names: str) -> dict[str, Attack]:
    """Return attacks by these servers."""
    return {name: by_server(name) for name in names}


_AGENT_OPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "agent for a host": ("ForwardAgent yes", ""),
    "agent by a path for a jump host": ("ProxyJump jump\n  ForwardAgent {agent}", "ForwardAgent {agent}"),
    "agent by a Match with a display, a command and the environment": (
        "ForwardX11 yes\nMatch all\n  ForwardAgent $SSH_AUTH_SOCK\n  SendEnv *\n  SetEnv A=b\n  RemoteCommand evil\n"
        "  RequestTTY yes",
        "",
    ),
}
"""By name, what the person has for the host and for its jump host."""


def by_forwarding(name: str) -> Attack:
    """Return an attack on a person beside the operator: their file lends the agent to hosts."""
    of_host, of_jump_host = _AGENT_OPTIONS[name]

    async def attack(scene: Scene) -> None:
        home = scene.cluster.control_plane.directory / f"home-{next(_NUMBERS)}"
        (home / ".ssh").mkdir(parents=True)
        key, lent = home / "key", home / "agent"
        key.write_bytes(KEY.export_private_key())
        key.chmod(0o600)
        async with AsyncExitStack() as stack:
            network = Network(home / ".ssh", stack)
            for server in ("win", "jump"):
                await network.add(server)
            network.write(win=of_host.format(agent=lent), jump=of_jump_host.format(agent=lent))
            stack.enter_context(agent(key, lent))
            environment = {"PATH": os.defpath, "HOME": str(home), "SSH_AUTH_SOCK": str(lent)}
            facts = (*TRANSOM, "facts", "win", "--login-timeout", "10s")
            quiet = asyncio.subprocess.DEVNULL
            command = await asyncio.create_subprocess_exec(*facts, env=environment, stdout=quiet, stderr=quiet)
            assert await command.wait() != 0
        assert ("win", False) in network.log.agents
        assert {lends for _, lends in network.log.agents} == {False}
        assert set(network.log.paths) <= {None}

    return attack


# --- the admission server


def by_review(build: BuildReview, times: int = 1) -> Attack:
    """Return an attack by somebody who reaches the admission server: so many reviews, each another one than the last."""

    async def attack(scene: Scene) -> None:
        for _ in range(times):
            body = await asyncio.to_thread(build, str(next(_NUMBERS)))
            head = b"POST /pods HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
            answer = await send(scene.admission, head + body)
            assert answer[9:12] in (b"200", b"400", b"413", b"503", b"")

    return attack


async def send(address: str, data: bytes, server_name: str = "x") -> bytes:
    """Send bytes by TLS, and return what comes until the end of the connection."""
    host, _, port = address.rpartition(":")
    context = ssl._create_unverified_context()
    reader, writer = await asyncio.open_connection(
        host, port, ssl=context, server_hostname=server_name, local_addr=(STRANGER, 0)
    )
    answer = b""
    try:
        writer.write(data)
        await writer.drain()
        answer = await reader.read()
    except OSError:
        # the server ended the connection without reading all
        pass
    finally:
        writer.transport.abort()
    return answer


async def greet_by_many_names(scene: Scene) -> None:
    """Name the server in another way each time: whatever is kept by such a name grows."""
    for _ in range(60):
        name = f"{next(_NUMBERS)}.{'x' * 60}.{'y' * 60}.{'z' * 60}.example"
        await send(scene.admission, b"GET /%b HTTP/1.1\r\nHost: %b\r\n\r\n" % (name.encode() * 20, name.encode()), name)


def by_pod(build: Callable[[], dict[str, Any]]) -> Attack:
    """Return an attack by a tenant who may create pods."""

    async def attack(scene: Scene) -> None:
        await scene.post_pod(await asyncio.to_thread(build), TENANT)

    return attack


def build_large_pod(**container: Any) -> dict[str, Any]:
    """Return a pod that keeps nothing of its own variables, whose container has these fields."""
    pod = plain_pod("large", annotations={"transom.dev/inject-proxy": "override"}, labels={"transom.dev/inject-ca": "true"})
    pod["spec"]["containers"][0] |= container
    return pod


def build_windows_pod() -> dict[str, Any]:
    """Return a pod of Windows with as many variables as are patched, in 500 containers."""
    pod = build_large_pod()
    variables = [{"name": name} for name in ("HtTp_PrOxY", "aLl_pRoXy", "No_pRoXy", "HTTPS_proxy", "x")]
    pod["spec"] = {
        "containers": [{"name": f"c{number}", "image": "x", "env": variables * 2} for number in range(500)],
        "nodeSelector": {"kubernetes.io/os": "windows"},
    }
    return pod


def build_excluding_pod() -> dict[str, Any]:
    """Return a pod that names 30,000 containers to leave out, and has 999."""
    pod = build_large_pod()
    pod["metadata"]["annotations"]["transom.dev/exclude-containers"] = ",".join(f"c{number}" for number in range(30_000))
    pod["spec"]["containers"] = [{"name": f"c{29_000 + number}", "image": "x"} for number in range(999)]
    return pod


def of_user(**user: Any) -> bytes:
    """Return a review of a user who has these fields."""
    return of(reviewed(userInfo={"username": "x", **user}))


# --- certificate requests


def by_requests(build: Callable[[], bytes], times: int, *, is_taken: bool = True, **metadata: Any) -> Attack:
    """Return an attack by somebody who may ask for certificates: so many requests, which stay until the end of the attack.

    `is_taken`: whether the API server takes them. It refuses those whose signature is not that of the key.
    """

    async def attack(scene: Scene) -> None:
        text = base64.b64encode(await asyncio.to_thread(build)).decode()
        spec = {"request": text, "signerName": SERVING, "usages": ["digital signature", "server auth"]}
        kind = {"apiVersion": REQUESTS.api_version, "kind": REQUESTS.kind, "spec": spec}
        names = [f"evil-{next(_NUMBERS)}" for _ in range(times)]
        try:
            for name in names:
                with contextlib.nullcontext() if is_taken else pytest.raises(StatusError):
                    await scene.cluster.client.create(REQUESTS, {**kind, "metadata": {**metadata, "name": name}})
            for name in names if is_taken else ():
                held = (await scene.cluster.client.get(REQUESTS, name)).value
                assert not (held.get("status") or {}).get("conditions")
        finally:
            for name in names:
                await scene.cluster.delete(REQUESTS, name)

    return attack


# --- the port of metrics and probes


def by_flood(name: str) -> Attack:
    """Return an attack by 450 connections that send the same, and then nothing more."""

    async def attack(scene: Scene) -> None:
        async with connect_strangers(scene.port, 450, FLOODS[name]):
            for _ in range(3):
                await scene.probe()

    return attack


def by_sockets(use: Callable[[socket.socket], None], count: int) -> Attack:
    """Return an attack by so many connections, each of which is used in that way and stays for as long as the others."""

    async def attack(scene: Scene) -> None:
        held: list[socket.socket] = []
        try:
            for _ in range(count):
                # the server has closed connections for others
                with contextlib.suppress(OSError):
                    held.append(await asyncio.to_thread(_connect, scene.port))
                    use(held[-1])
            for _ in range(3):
                await scene.probe()
        finally:
            for one in held:
                one.close()

    return attack


def _connect(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(STRANGER, 0))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    made.setblocking(False)
    return made


_GET: Final = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def half_close(peer: socket.socket) -> None:
    """Ask, and end one direction alone."""
    peer.send(_GET)
    peer.shutdown(socket.SHUT_WR)


def reset(peer: socket.socket) -> None:
    """Ask, and break the connection off."""
    peer.send(_GET)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def ask_and_read_nothing(peer: socket.socket) -> None:
    """Ask a hundred times into a window of some bytes."""
    peer.send(_GET * 100)


# --- names that become part of a path


def by_names(**spec: Any) -> Attack:
    """Return an attack by somebody who may write instances: what they name is a path."""

    async def attack(scene: Scene) -> None:
        name = f"evil-{next(_NUMBERS)}"
        # the definition refuses some
        with contextlib.suppress(StatusError):
            await scene.cluster.instance(name, None, address="127.0.0.1", port=1, username="x", **spec)
            await scene.cluster.until(name, Configured="False")
        await remove_instance(scene, name)

    return attack


_PATH: Final = "../../../../api/v1/namespaces/kube-system/secrets/x"


# --- kubeconfigs of tenants


def by_kubeconfig(server: str, proxy: str | None = None) -> Attack:
    """Return an attack by a tenant whose kubeconfig leads to a port of the operator's own host."""

    async def attack(scene: Scene) -> None:
        connections = 0

        def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            writer.close()

        listening = await asyncio.start_server(note, "localhost", 0)
        port = listening.sockets[0].getsockname()[1]
        name = f"evil-{next(_NUMBERS)}"
        text = yaml.safe_dump(build_kubeconfig(server.format(port=port), proxy and proxy.format(port=port)))
        data = {"value": base64.b64encode(text.encode()).decode()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{name}-kubeconfig"}, "data": data}
        client = scene.cluster.client

        async def is_refused() -> bool:
            held = (await client.get(EGRESS_PROXIES, "cluster")).value.get("status") or {}
            messages = [item["message"] for item in held.get("conditions", ()) if item["type"] == "Propagated"]
            return any(name in message for message in messages)

        async with listening:
            await client.create(SECRETS, secret, TENANT)
            value = build_cluster(name, TENANT, "v1beta2", host=None)
            try:
                await client.create(CLUSTERS, value, TENANT)
                await until(is_refused)
            finally:
                await client.delete(CLUSTERS, name, TENANT)
                await client.delete(SECRETS, f"{name}-kubeconfig", TENANT)
        assert connections == 0

    return attack


ATTACKS: Final[Mapping[str, Mapping[str, Attack]]] = MappingProxyType(
    {
        "SSH before the login": list_servers("slow group", "slow group as a guess", "slow group in the place of a reply"),
        "SSH algorithms": list_servers("exchange by SHA-1 alone", "MACs of 64 bits alone", "DSA alone", "CBC and MD5 alone"),
        "SSH key exchanges again": list_servers(
            "rekeying by a slow group", "rekeying by a slow group during a transfer", "rekeying as another host"
        ),
        "SSH agents": {
            **{name: by_forwarding(name) for name in _AGENT_OPTIONS},
            **list_servers("agent used as if it were lent", "display and agent in turn"),
        },
        "large pods": {
            "130,000 variables": by_pod(lambda: build_large_pod(env=[{"name": "HTTP_PROXY"}, {"name": "ALL_PROXY"}] * 65_000)),
            "variables of Windows in 500 containers": by_pod(build_windows_pod),
            "30,000 containers that are left out": by_pod(build_excluding_pod),
        },
        "what reviews leave behind": {
            "namespaces of 3 MB": by_review(REVIEWS["long namespace"], times=20),
            "namespaces of the length that is permitted": by_review(
                lambda mark: of(reviewed(namespace=f"n{mark}".ljust(63, "x"), uid=f"u{mark}".ljust(128, "x"))), times=60
            ),
            "names of the server": greet_by_many_names,
        },
        "items of reviews": {
            "empty containers": by_review(REVIEWS["many containers in 0.7 MB"]),
            "groups of the user": by_review(lambda _: of_user(groups=[""] * 900_000)),
            "fields of the user": by_review(lambda _: of_user(extra={f"{number:x}": [] for number in range(250_000)})),
            "managed fields": by_review(lambda _: of(reviewed(object=build_pod({}, managedFields=[{}] * 900_000)))),
        },
        "names in paths": {
            "namespace of a review": by_review(REVIEWS["namespace that is a path"], times=5),
            "namespace of a review in other letters": by_review(
                lambda mark: of(reviewed(namespace=f"{mark}\u2024\u2024\u2215api;x=%00\\..\\..")), times=5
            ),
            "node of a certificate": by_requests(lambda: build_large(common_name=f"system:node:{_PATH}"), 3),
            "key of an instance": by_names(keySecret={"name": _PATH}),
            "key and node of an instance": by_names(keySecret={"name": f"..%2f{_PATH}"}, nodeName="..", lifecycle="Node"),
        },
        "large certificate requests": {
            "60,000 names": by_requests(HOSTILE_REQUESTS["large-names"], 80),
            "addresses up to the bound": by_requests(build_addresses, 80),
            "annotations of 250 kB": by_requests(build_large, 80, annotations={"a": "x" * 250_000}),
            "8,000 labels": by_requests(build_large, 20, labels={f"label-{number:06}": "x" * 63 for number in range(8_000)}),
        },
        "keys of certificate requests": {
            "Diffie-Hellman": by_requests(HOSTILE_REQUESTS["dh-generator-5"], 3, is_taken=False),
            "P-224": by_requests(lambda: build_large(key=ec.generate_private_key(ec.SECP224R1())), 3),
            "RSA of 1,024 bits": by_requests(lambda: build_large(key=rsa.generate_private_key(65_537, 1_024)), 3),
        },
        "the port of metrics": {
            "450 that say nothing": by_flood("nothing"),
            "450 that end one direction": by_sockets(half_close, 450),
            "900 that break off": by_sockets(reset, 900),
            "200 that read nothing": by_sockets(ask_and_read_nothing, 200),
        },
        "kubeconfigs": {
            "server on the operator's host": by_kubeconfig("https://127.0.0.1:{port}"),
            "proxy on the operator's host": by_kubeconfig("https://api.example:6443", "http://127.0.0.1:{port}"),
            "server by a name with a dot": by_kubeconfig("https://LOCALHOST.:{port}"),
            "proxy by a long address": by_kubeconfig("https://10.0.0.1:6443", "http://[0:0:0:0:0:FFFF:7F00:0001]:{port}"),
        },
    }
)
"""By kind and name."""
LYING: Final = tuple(name for attacks in ATTACKS.values() for name in attacks if name in SERVERS)
"""The SSH servers that they need."""
