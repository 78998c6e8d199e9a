"""Certificate signing requests of a node, as kubelet makes them."""

import asyncio
import base64
import contextlib
import math
from collections.abc import AsyncIterator, Sequence

from tests.support.operator.clusters import Cluster
from tests.support.waiting import PATIENCE, until

from transom.controllers.certificates.controller import CertificatesController
from transom.controllers.join.bootstrap_tokens import Token
from transom.controllers.join.members import Members
from transom.controllers.operator import Operator
from transom.controllers.runtime.cached_objects import INSTANCES
from transom.controllers.runtime.controller import Leadership
from transom.hosts.owner import Owner
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import StatusError
from transom.kube.events import EventRecorder
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import Resource

REQUESTS = Resource(
    "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", False, UnstructuredObject
)


def named(cluster: Cluster, name: str) -> str:
    """A Node's name: the API server is shared."""
    return f"{name}.{cluster.namespace}"


def members(operator: Operator) -> Members:
    controller = operator.controllers["certificates"]
    assert isinstance(controller, CertificatesController)
    return controller.members


async def token(cluster: Cluster, operator: Operator, name: str) -> Token:
    """The bootstrap token of an instance, as its pass gets it."""
    held = await cluster.client.get(INSTANCES, name, cluster.namespace)
    leadership = Leadership(cluster.client, EventRecorder(cluster.client), lambda: math.inf, Owner("test", "test"))
    made = await members(operator).tokens.ensure(held, leadership)
    await until(lambda: made.username in dict(members(operator).tokens.iter_token_holders()))
    return made


@contextlib.asynccontextmanager
async def holder(cluster: Cluster, token: Token) -> AsyncIterator[Client]:
    """Who has a token, and nothing else."""
    path = cluster.control_plane.write_kubeconfig(f"{cluster.namespace}-{token.id}", token.text.reveal())
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
    async with asyncio.timeout(PATIENCE):
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
    return [condition["type"] for condition in held["status"].get("conditions", ())] == ["Approved"]


async def until_approved(cluster: Cluster, name: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await approved(cluster, name):
            await asyncio.sleep(0.05)


async def until_refused(cluster: Cluster, about: str, request: str, why: str) -> None:
    said: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE):
            while not any(named(cluster, request) in item and why in item for item in said):
                await asyncio.sleep(0.05)
                said = [m for _, reason, m in await cluster.events(about) if reason == "CertificateRefused"]
    except TimeoutError:
        raise AssertionError(f"{why!r} is not in {said}") from None
    assert not await approved(cluster, request)


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
