"""Certificates on a real API server: bootstrap tokens that it knows, requests that it takes, and who approves them."""

import asyncio
import base64
import contextlib
import math
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.operator.clusters import Cluster
from tests.windows.test_node_certificates import CLIENT_USAGES, SERVING_USAGES, pem

from transom.controllers.kept import INSTANCES
from transom.controllers.operator import Operator
from transom.controllers.term import Term
from transom.controllers.windows.bootstrap_tokens import Token
from transom.controllers.windows.certificates import CertificatesController
from transom.controllers.windows.members import Members
from transom.hosts.owner import Owner
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import StatusError
from transom.kube.events import EventRecorder
from transom.kube.objects import Whole
from transom.kube.resources import NODES, Resource
from transom.manifests.roles import roles
from transom.windows.node_certificates import CLIENT, SERVING

pytestmark = pytest.mark.lab
REQUESTS = Resource("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", False, Whole)
ONLY = ("certificates", "nodes")


def named(cluster: Cluster, name: str) -> str:
    """A Node's name: the API server is shared."""
    return f"{name}.{cluster.namespace}"


async def host(cluster: Cluster, name: str, address: str) -> None:
    """An instance that is not connected to: its key is nowhere."""
    await cluster.instance(
        name,
        None,
        address=address,
        username="Administrator",
        lifecycle="Node",
        nodeName=named(cluster, name),
        keySecret={"name": "nobody-made-it"},
    )


def members(operator: Operator) -> Members:
    controller = operator.controllers["certificates"]
    assert isinstance(controller, CertificatesController)
    return controller.members


async def token(cluster: Cluster, operator: Operator, name: str) -> Token:
    """The bootstrap token of an instance, as its pass gets it."""
    held = await cluster.client.get(INSTANCES, name, cluster.namespace)
    term = Term(cluster.client, EventRecorder(cluster.client), lambda: math.inf, Owner("test", "test"))
    made = await members(operator).tokens.ensure(held, term)
    async with asyncio.timeout(10):
        while made.username not in dict(members(operator).tokens.known()):
            await asyncio.sleep(0.02)
    return made


@contextlib.asynccontextmanager
async def holder(cluster: Cluster, token: Token) -> AsyncIterator[Client]:
    """Who has a token, and nothing else."""
    path = cluster.control_plane.user_kubeconfig(f"{cluster.namespace}-{token.id}", token.text.reveal())
    connection = connect(str(path))
    try:
        yield Client(connection)
    finally:
        await connection.close()


async def ask(cluster: Cluster, client: Client, name: str, body: bytes, signer: str, usages: Sequence[str]) -> None:
    spec = {"request": base64.b64encode(body).decode(), "signerName": signer, "usages": list(usages)}
    value = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": named(cluster, name)},
        "spec": spec,
    }
    async with asyncio.timeout(10):
        while True:
            try:
                await client.create(REQUESTS, value)
            except StatusError as error:
                # the API server's view of a new token comes by a watch
                if error.code != 401:
                    raise
                await asyncio.sleep(0.05)
            else:
                return


async def approved(cluster: Cluster, name: str) -> bool:
    held = (await cluster.client.get(REQUESTS, named(cluster, name))).value
    return [one["type"] for one in held["status"].get("conditions", ())] == ["Approved"]


async def until_approved(cluster: Cluster, name: str) -> None:
    async with asyncio.timeout(20):
        while not await approved(cluster, name):
            await asyncio.sleep(0.05)


async def until_refused(cluster: Cluster, about: str, request: str, why: str) -> None:
    said: list[str] = []
    try:
        async with asyncio.timeout(20):
            while not any(named(cluster, request) in one and why in one for one in said):
                await asyncio.sleep(0.05)
                said = [m for _, reason, m in await cluster.events(about) if reason == "CertificateRefused"]
    except TimeoutError:
        raise AssertionError(f"{why!r} is not in {said}") from None
    assert not await approved(cluster, request)


@pytest.fixture
async def joining(cluster: Cluster) -> AsyncIterator[Operator]:
    await asyncio.to_thread(cluster.control_plane.apply, list(roles(cluster.namespace, ONLY)))
    await host(cluster, "win-1", "10.0.0.7")
    await host(cluster, "win-2", "10.0.0.8")
    async with cluster.operator(controllers=ONLY) as operator:
        await cluster.until("win-2", Configured="False/KeyMissing")
        yield operator


async def test_a_token_holder_gets_a_certificate_for_its_host_alone(cluster: Cluster, joining: Operator) -> None:
    one, two = await token(cluster, joining, "win-1"), await token(cluster, joining, "win-2")
    assert await token(cluster, joining, "win-1") == one
    own, other, unknown = (pem(f"system:node:{named(cluster, name)}") for name in ("win-1", "win-2", "nobody"))
    async with holder(cluster, one) as client:
        await ask(cluster, client, "own", own, CLIENT, CLIENT_USAGES)
        await ask(cluster, client, "other", other, CLIENT, CLIENT_USAGES)
        await ask(cluster, client, "unknown", unknown, CLIENT, CLIENT_USAGES)
        await ask(
            cluster,
            client,
            "masters",
            pem(f"system:node:{named(cluster, 'win-1')}", ("system:masters",)),
            CLIENT,
            CLIENT_USAGES,
        )
        await ask(cluster, client, "usage", own, CLIENT, (*CLIENT_USAGES, "server auth"))
        # and it may do nothing else
        for resource in (NODES, INSTANCES):
            with pytest.raises(StatusError, match="forbidden"):
                await client.list_objects(resource)
    await until_approved(cluster, "own")
    await until_refused(cluster, "win-1", "other", "asks for node win-2")
    await until_refused(cluster, "win-1", "unknown", "asks for node nobody")
    await until_refused(cluster, "win-1", "masters", "organization system:nodes")
    await until_refused(cluster, "win-1", "usage", "usages")
    assert (one.id, one.text) != (two.id, two.text)
    assert one.text.reveal() not in str(await cluster.events("win-1"))


async def test_a_rogue_token_opens_nothing(cluster: Cluster, joining: Operator) -> None:
    """One that somebody else made, with every right that a bootstrap token of kubeadm has."""
    rogue = "rogue" + cluster.namespace[-1]
    secret = {
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": f"bootstrap-token-{rogue}", "namespace": "kube-system"},
        "apiVersion": "v1",
        "kind": "Secret",
        "stringData": {
            "token-id": rogue,
            "token-secret": "hunter2hunter2xy",
            "usage-bootstrap-authentication": "true",
            "auth-extra-groups": "system:bootstrappers:transom",
        },
    }
    await asyncio.to_thread(cluster.control_plane.apply, [secret])
    path = cluster.control_plane.user_kubeconfig(rogue, f"{rogue}.hunter2hunter2xy")
    connection = connect(str(path))
    body = pem(f"system:node:{named(cluster, 'win-1')}")
    await ask(cluster, Client(connection), "known-name", body, CLIENT, CLIENT_USAGES)
    await connection.close()
    await until_refused(cluster, "win-1", "known-name", f"system:bootstrap:{rogue} may not ask")


async def test_serving_certificates_have_the_hosts_own_addresses(cluster: Cluster, joining: Operator) -> None:
    one, two = (f"system:node:{named(cluster, name)}" for name in ("win-1", "win-2"))

    async def as_node(name: str, user: str, sans: Sequence[str]) -> None:
        impersonated = {"Impersonate-User": user, "Impersonate-Group": "system:nodes"}
        connection = connect(str(cluster.control_plane.kubeconfig))
        connection.http.headers.update(impersonated)
        await ask(cluster, Client(connection), name, pem(one, sans=sans), SERVING, SERVING_USAGES)
        await connection.close()

    await as_node("own-address", one, (named(cluster, "win-1"), "10.0.0.7"))
    await as_node("others-address", one, (named(cluster, "win-1"), "10.0.0.8"))
    await as_node("others-name", one, (named(cluster, "win-2"),))
    # the API server's own admission (NodeRestriction) is before us
    with pytest.raises(StatusError, match="can only create a node CSR with CN=system:node:win-2"):
        await as_node("others-request", two, (named(cluster, "win-1"), "10.0.0.7"))
    await until_approved(cluster, "own-address")
    await until_refused(cluster, "win-1", "others-address", "address 10.0.0.8")
    await until_refused(cluster, "win-1", "others-name", "DNS name win-2")


async def test_what_came_before_its_host_was_known(cluster: Cluster, joining: Operator) -> None:
    """A request waits undecided, over a restart too, and is judged when the host is known."""
    one = await token(cluster, joining, "win-1")
    async with holder(cluster, one) as client:
        body = pem(f"system:node:{named(cluster, 'late')}")
        await ask(cluster, client, "late", body, CLIENT, CLIENT_USAGES)
        await until_refused(cluster, "win-1", "late", "asks for node late")
        late: dict[str, Any] = {"spec": {"nodeName": named(cluster, "late")}}
        await cluster.merge(INSTANCES, "win-1", late)
        await until_approved(cluster, "late")
