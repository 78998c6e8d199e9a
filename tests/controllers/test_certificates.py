"""Certificates on a real API server: bootstrap tokens that it knows, requests that it takes, and who approves them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from tests.support.operator.clusters import Cluster
from tests.support.operator.requests import ask, holder, host, named, token, until_approved, until_refused
from tests.windows.node_certificates import CLIENT_USAGES, SERVING_USAGES, pem

from transom.controllers.operator import Operator
from transom.controllers.runtime.cached_objects import INSTANCES
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import StatusError
from transom.kube.resources import NODES
from transom.manifests.roles import iter_roles
from transom.windows.nodes.node_certificates import CLIENT, SERVING

pytestmark = pytest.mark.lab
ONLY = ("certificates", "nodes")


@pytest.fixture
async def joining(cluster: Cluster) -> AsyncIterator[Operator]:
    await asyncio.to_thread(cluster.control_plane.apply, list(iter_roles(cluster.namespace, ONLY)))
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
    path = cluster.control_plane.write_kubeconfig(rogue, f"{rogue}.hunter2hunter2xy")
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
        connection.transport.headers.update(impersonated)
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
