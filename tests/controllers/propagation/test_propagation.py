"""Settings brought into a second real API server, where a Transom of its own finds them; and servers that are not there."""

import asyncio
import base64
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from lab.control_plane import ControlPlane
from lab.ports import reserve
from tests.kube.hostile_kubeconfigs import ANY_NETWORK
from tests.support.bundles import certificate
from tests.support.management.kubeconfigs import kubeconfig, put_kubeconfig
from tests.support.management.management import Management
from tests.support.management.manifests import PASSWORD, PROXY, RFC_LINE, USER, egress_proxy
from tests.support.operator.clusters import admin, at_work
from tests.webhook.clusters import PODS, plain_pod

from transom.controllers.operator import Operator, Options
from transom.controllers.propagation.controller import parse_kubeconfig, select_proxy
from transom.controllers.propagation.propagated_objects import CA, CREDENTIALS
from transom.kube.client import Client
from transom.kube.connection import Connection, connect_untrusted_cluster
from transom.kube.errors import ConfigurationError, ConnectionFailed, NotFound
from transom.kube.kubeconfig import choose_untrusted_context
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, NAMESPACES, REGISTRATIONS, SECRETS, Resource
from transom.manifests.admission import iter_admission_roles
from transom.manifests.definitions import build_crds
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.webhook.webhook import Webhook, WebhookOptions

pytestmark = pytest.mark.lab
ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", True, UnstructuredObject)
CONTROLLERS = ("egress", "clusters", "propagation")


@pytest.fixture(scope="session")
def workload_plane() -> Iterator[ControlPlane]:
    """The API server of a workload cluster in which Transom is installed."""
    with ControlPlane(definitions=build_crds()) as running:
        yield running


@pytest.fixture
async def there(workload_plane: ControlPlane, management: Management) -> AsyncIterator[Client]:
    """The administrator of the workload cluster; Transom's namespace is there."""
    async with admin(workload_plane) as client:
        value = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": management.namespace}}
        await client.create(NAMESPACES, value)
        yield client
        with contextlib.suppress(NotFound):
            # an operator that worked there has gone
            await client.patch(EGRESS_PROXIES, {"metadata": {"finalizers": None}}, "cluster")
            await client.delete(EGRESS_PROXIES, "cluster")


async def test_settings_arrive_after_what_they_name_and_the_transom_there_finds_them_valid(
    management: Management, workload_plane: ControlPlane, there: Client
) -> None:
    pem = certificate("corp")
    await management.cluster()
    await management.bundle(pem)
    await put_kubeconfig(management, kubeconfig(workload_plane))
    before = workload_plane.get_moment()
    await management.settings(propagate=True, trustedCA={"name": "corp-ca"})
    async with management.operator(controllers=CONTROLLERS):
        _, _, message = await management.until_condition("Propagated", "PodsWithheld")
        assert "spec.propagated.pods.namespaceSelector: not set" in message
        assert f"pods get no proxy in 1 of 1 clusters ({management.org}/mycluster)" in message
        held = (await there.get(EGRESS_PROXIES, "cluster")).value
        assert held["spec"] == {
            "httpProxy": PROXY,
            "httpsProxy": PROXY,
            "noProxy": RFC_LINE,
            "credentialsSecret": {"name": CREDENTIALS},
            "trustedCA": {"name": CA},
            "priority": 0,
        }
        secret = (await there.get(SECRETS, CREDENTIALS, management.namespace)).value["data"]
        assert {key: base64.b64decode(value).decode() for key, value in secret.items()} == {
            "username": USER,
            "password": PASSWORD,
        }
        assert (await there.get(CONFIG_MAPS, CA, management.namespace)).value["data"] == {"ca-bundle.crt": pem}
        writes = [
            entry["objectRef"]["resource"]
            for entry in workload_plane.read_audit(before)
            if entry["verb"] == "patch" and entry["userAgent"] == "transom"
        ]
        assert writes == ["secrets", "configmaps", "egressproxies"]
        async with transom_there(there, management.namespace):

            async def valid() -> bool:
                status = (await there.get(EGRESS_PROXIES, "cluster")).value.get("status") or {}
                return ("Valid", "True") in [
                    (condition["type"], condition["status"]) for condition in status.get("conditions", ())
                ]

            await management.until(valid)
        selector = {"namespaceSelector": {"matchLabels": {"team": "a"}}}
        more: dict[str, Any] = {"trustedCA": {"name": "corp-ca"}, "propagated": {"pods": selector}}
        await management.settings(password="hunter2-new", propagate=True, **more)
        await management.until_condition("Propagated", "Propagated")
        assert (await there.get(EGRESS_PROXIES, "cluster")).value["spec"]["pods"] == selector

        async def rotated() -> bool:
            found = (await there.get(SECRETS, CREDENTIALS, management.namespace)).value["data"]["password"]
            return base64.b64decode(found) == b"hunter2-new"

        await management.until(rotated)
        await management.merge("EgressProxy", "cluster", {"spec": {"propagate": False}})

        async def gone() -> bool:
            left = [*(await there.list_objects(SECRETS, management.namespace)).items]
            left += (await there.list_objects(CONFIG_MAPS, management.namespace)).items
            names = {item.metadata.name for item in left} & {CREDENTIALS, CA}
            return not names and not (await there.list_objects(EGRESS_PROXIES)).items

        # the Transom there has a word in it: it gives its hosts back first
        async with transom_there(there, management.namespace):
            await management.until(gone)


async def test_pods_of_a_workload_cluster_get_the_proxy_from_the_transom_there(
    management: Management, workload_plane: ControlPlane, there: Client
) -> None:
    await management.cluster()
    await put_kubeconfig(management, kubeconfig(workload_plane))
    await asyncio.to_thread(workload_plane.define, list(iter_admission_roles(management.namespace)))
    meta = {"name": "shop", "labels": {"team": "a"}}
    await there.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await there.create(ACCOUNTS, account, "shop")
    await management.settings(propagate=True, propagated={"pods": {"namespaceSelector": {"matchLabels": {"team": "a"}}}})
    port = reserve()
    options = WebhookOptions(management.namespace, f"https://127.0.0.1:{port}", drain=0.0)
    async with management.operator(controllers=CONTROLLERS), admin(workload_plane) as client:
        await management.until_condition("Propagated", "Propagated")
        operator = Operator(client, Options(namespace=management.namespace, workers=2, controllers=("egress", "pods")))
        stop, webhook = asyncio.Event(), Webhook(client, options)
        serving = asyncio.create_task(webhook.run(stop, ("127.0.0.1", port)))
        try:
            async with at_work(operator):

                async def given() -> list[str]:
                    path, dry = PODS.build_path("shop"), {"dryRun": "All"}
                    made = json.loads(await there.request("POST", path, dry, plain_pod("probe")))
                    return [item["name"] for item in made["spec"]["containers"][0].get("env", ())]

                assert "HTTPS_PROXY" in await management.until(given)

                async def delivered() -> bytes | None:
                    try:
                        found = await there.get(SECRETS, "transom-egress", "shop")
                    except NotFound:
                        return None
                    return base64.b64decode(found.value["data"]["HTTPS_PROXY"])

                assert (await management.until(delivered)).startswith(f"http://{USER}:".encode())
        finally:
            stop.set()
            await serving
            await there.delete(REGISTRATIONS, "transom")


async def test_a_cluster_without_a_proxy_is_told_so(
    management: Management, workload_plane: ControlPlane, there: Client
) -> None:
    await management.cluster(labels={"proxy": "none"})
    await put_kubeconfig(management, kubeconfig(workload_plane))
    await management.settings(propagate=True)
    async with management.operator(controllers=CONTROLLERS):
        await management.until_data("Secret", "mycluster-systemd-proxy", "shell", "HTTP_PROXY")
        await management.until_condition("Propagated", "PodsWithheld")
        direct = egress_proxy("none", mode="Direct", priority=9, clusterSelector={"matchLabels": {"proxy": "none"}})
        await management.put(direct)

        async def empty() -> bool:
            return (await there.get(EGRESS_PROXIES, "cluster")).value["spec"] == {"priority": 0}

        await management.until(empty)

        async def gone() -> bool:
            names = {item.metadata.name for item in (await there.list_objects(SECRETS, management.namespace)).items}
            names |= {item.metadata.name for item in (await management.client.list_objects(SECRETS, management.org)).items}
            return names.isdisjoint({CREDENTIALS, "mycluster-systemd-proxy"})

        await management.until(gone)


def transom_there(client: Client, namespace: str) -> AbstractAsyncContextManager[Operator]:
    """An operator in the workload cluster."""
    return at_work(Operator(client, Options(namespace=namespace, workers=2, controllers=("egress",))))


async def test_stopped_server_and_garbage_cost_nobody_else_and_a_new_kubeconfig_is_followed(
    management: Management, management_plane: ControlPlane, workload_plane: ControlPlane, there: Client
) -> None:
    for name in ("alpha", "beta", "gamma", "itself"):
        await management.cluster(name)
    await put_kubeconfig(management, kubeconfig(workload_plane), "alpha")
    await put_kubeconfig(management, "hunter2: [", "beta")
    await put_kubeconfig(management, kubeconfig(workload_plane, token="hunter2-revoked"), "gamma")
    await put_kubeconfig(management, kubeconfig(management_plane), "itself")
    workload_plane.signal("kube-apiserver", signal.SIGSTOP)
    try:
        await management.settings(propagate=True)
        async with management.operator(controllers=CONTROLLERS):
            await management.until_data("Secret", "alpha-systemd-proxy", "shell", "HTTP_PROXY")
            await management.until_condition("ClustersApplied", "Applied")
            _, _, message = await management.until_condition("Propagated", "Failed")
            assert "hunter2" not in message
            since = management.control_plane.get_moment()
            await management.settings(password="hunter2-other", propagate=True)
            await management.until_data("Secret", "beta-systemd-proxy", "shell", "hunter2-other")
            assert management.writes(since)
            workload_plane.signal("kube-apiserver", signal.SIGCONT)
            await put_kubeconfig(management, kubeconfig(workload_plane), "gamma")

            async def arrived() -> str | None:
                try:
                    held = await there.get(EGRESS_PROXIES, "cluster")
                except NotFound:
                    return None
                return (held.metadata.annotations or {}).get("transom.dev/propagated-from")

            assert await management.until(arrived)
            own = (await management.client.get(EGRESS_PROXIES, "cluster")).metadata.annotations or {}
            assert not [key for key in own if key.startswith("transom.dev/")]
            here = (await management.client.list_objects(SECRETS, management.namespace)).items
            assert CREDENTIALS not in {item.metadata.name for item in here}
    finally:
        workload_plane.signal("kube-apiserver", signal.SIGCONT)


async def test_settings_of_somebody_else_there_are_named_and_left_alone(
    management: Management, workload_plane: ControlPlane, there: Client
) -> None:
    theirs = {"noProxy": "theirs.example", "httpProxy": "http://theirs.example:1"}
    value = {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": "cluster"}, "spec": theirs}
    await there.create(EGRESS_PROXIES, value)
    await management.cluster()
    await put_kubeconfig(management, kubeconfig(workload_plane))
    await management.settings(propagate=True)
    async with management.operator(controllers=CONTROLLERS):
        _, _, message = await management.until_condition("Propagated", "Failed")
        assert "EgressProxy cluster there is not managed by Transom" in message
        assert (await there.get(EGRESS_PROXIES, "cluster")).value["spec"] == {**theirs, "priority": 0}
        assert not (await there.list_objects(SECRETS, management.namespace)).items


def remote(text: str | bytes, source: str, proxy: str | None = None) -> Connection:
    data = text.encode() if isinstance(text, str) else text
    return connect_untrusted_cluster(choose_untrusted_context(parse_kubeconfig(data, source), source), proxy, ANY_NETWORK)


REFUSED = [
    ("hunter2: [", "this is not YAML"),
    ("hunter2", "not a valid kubeconfig"),
    ("{}", "no current context is set"),
    ({"exec": {"command": "/bin/hunter2"}}, "user.exec is not taken"),
    ({"tokenFile": "/etc/hunter2"}, "user.tokenFile is not taken"),
    ({"client-certificate": "/etc/hunter2", "client-key": "/etc/hunter2"}, "user.client-certificate is not taken"),
    ({"client-certificate-data": "aHVudGVyMg==", "client-key-data": "aHVudGVyMg=="}, "cannot be read"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_kubeconfig_that_is_not_taken(workload_plane: ControlPlane, given: Any, message: str) -> None:
    text = given if isinstance(given, str) else kubeconfig(workload_plane, **given)
    with pytest.raises(ConfigurationError, match=message) as caught:
        remote(text, "Secret a/b-kubeconfig")
    assert "hunter2" not in str(caught.value)


async def reaches(connection: Connection, reached: bool) -> None:
    """The server at the other end, or none whose certificate can be believed."""
    try:
        if reached:
            assert (await Client(connection).get(NAMESPACES, "kube-system")).metadata.uid
        else:
            with pytest.raises(ConnectionFailed, match="certificate verify failed"):
                await Client(connection).get(NAMESPACES, "kube-system")
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("name", "reached"),
    [("kubernetes.default.svc", True), ("", False), ("other.example", False)],
    ids=["right", "none", "wrong"],
)
async def test_certificate_has_to_name_what_tls_server_name_says(
    workload_plane: ControlPlane, name: str, reached: bool
) -> None:
    cluster = {"server": f"https://localhost:{workload_plane.port}", "tls-server-name": name}
    await reaches(remote(kubeconfig(workload_plane, cluster), "here"), reached)


async def test_client_certificate_in_a_kubeconfig_is_used(workload_plane: ControlPlane) -> None:
    paths = [workload_plane.client_authority_file.parent / f"kubelet-client.{suffix}" for suffix in ("crt", "key")]
    certificate_data, key_data = (base64.b64encode(path.read_bytes()).decode() for path in paths)
    user = {"client-certificate-data": certificate_data, "client-key-data": key_data}
    connection = remote(kubeconfig(workload_plane, **user), "here")
    try:
        assert (await Client(connection).get(NAMESPACES, "kube-system")).metadata.uid
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("server", "no_proxy", "direct"),
    [
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://api.prod.example:6443", "10.0.0.0/8,.example", True),
        ("https://api.prod.example:6443", "10.0.0.0/8", False),
        ("https://api.prod.example:6443", "*", True),
        ("https://127.0.0.1:6443", "", True),
    ],
)
def test_way_to_a_cluster_is_as_no_proxy_says(server: str, no_proxy: str, direct: bool) -> None:
    proxy = "http://u:hunter2@proxy.x:3128"
    assert select_proxy(server, Egress(Secret(proxy), Secret(proxy), no_proxy)) == (None if direct else proxy)
    assert select_proxy(server, Egress()) is None
    assert select_proxy(server, None) is None


async def test_server_is_reached_through_the_proxy_with_its_credentials(workload_plane: ControlPlane) -> None:
    heads: list[bytes] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            writer.write(chunk)
        writer.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", workload_plane.port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))

    async with await asyncio.start_server(tunnel, "127.0.0.1", 0) as listener:
        proxy = f"http://me:hunter2%25%26@127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        connection = remote(kubeconfig(workload_plane), "here", proxy)
        try:
            assert (await Client(connection).get(NAMESPACES, "kube-system")).metadata.uid
        finally:
            await connection.close()
        # a name that the certificate does not have, as of a load balancer; the tunnel leads to the server all the same
        address = {"server": "https://balancer.example:6443"}
        for named, reached in (({}, False), ({"tls-server-name": "kubernetes.default.svc"}, True)):
            await reaches(remote(kubeconfig(workload_plane, address | named), "here", proxy), reached)
    head, *others = heads
    assert head.startswith(f"CONNECT 127.0.0.1:{workload_plane.port} ".encode())
    assert b"Basic " + base64.b64encode(b"me:hunter2%&") in head
    assert [other.split(b" ")[1] for other in others] == [b"balancer.example:6443"] * 2
