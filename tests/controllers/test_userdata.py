"""The Secret `windows-user-data` on a real API server, kept with the rights that `transom manifests --openshift` gives."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import asyncssh
import pytest
from tests.support.operator.clusters import PROXY, Cluster
from tests.support.waiting import PATIENCE

from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import NotFound
from transom.kube.resources import SECRETS
from transom.manifests.roles import iter_roles

pytestmark = pytest.mark.lab
ONLY = ("userdata",)


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def until_text(cluster: Cluster, place: str, fits: Callable[[str], bool]) -> str:
    text = ""
    try:
        async with asyncio.timeout(PATIENCE):
            while not fits(text):
                await asyncio.sleep(0.05)
                try:
                    held = (await cluster.client.get(SECRETS, "windows-user-data", place)).value
                except NotFound:
                    continue
                text = base64.b64decode(held["data"]["userData"]).decode()
    except TimeoutError:
        raise AssertionError(text) from None
    return text


async def until_told(cluster: Cluster, reason: str) -> str:
    async with asyncio.timeout(PATIENCE):
        while True:
            for _, item, message in await cluster.events("cloud-private-key"):
                if item == reason:
                    return message
            await asyncio.sleep(0.05)


async def test_it_follows_the_key_and_the_settings(cluster: Cluster, machine_api: None) -> None:
    plane = cluster.control_plane
    await asyncio.to_thread(plane.apply, [namespace("openshift-machine-api"), namespace("openshift-cluster-api")])
    granted = [*iter_roles(cluster.namespace, ONLY, openshift=True)]
    await asyncio.to_thread(plane.apply, granted)
    token = await asyncio.to_thread(plane.create_service_account_token, cluster.namespace, "transom")
    connection = connect(str(plane.write_kubeconfig(f"{cluster.namespace}-userdata", token)))
    public = cluster.simulator.client_key.export_public_key().decode().split()[1]
    await cluster.instance("win-1", None, address="10.9.0.7", username="joe")
    async with cluster.operator(Client(connection), controllers=ONLY):
        for place in ("openshift-machine-api", "openshift-cluster-api"):
            text = await until_text(cluster, place, lambda text: public in text)
            assert text.startswith("<powershell>")
        await cluster.client.delete(SECRETS, "windows-user-data", "openshift-cluster-api")
        await until_text(cluster, "openshift-cluster-api", lambda text: public in text)
        changed = {"data": {"userData": base64.b64encode(b"<powershell>somebody's</powershell>").decode()}}
        await cluster.client.patch(SECRETS, changed, "windows-user-data", "openshift-machine-api")
        await until_text(cluster, "openshift-machine-api", lambda text: public in text)
        await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
        await until_text(cluster, "openshift-machine-api", lambda text: "WinHttpSettings" in text)
        other = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
        await cluster.put_key(other.export_private_key("pkcs8-pem").decode())
        wanted = other.export_public_key().decode().split()[1]
        await until_text(cluster, "openshift-machine-api", lambda text: wanted in text)
        await cluster.put_key("-----BEGIN PRIVATE KEY-----\nhunter2\n")
        assert "hunter2" not in await until_told(cluster, "KeyInvalid")
        await cluster.delete(SECRETS, "cloud-private-key")
        await until_told(cluster, "KeyMissing")
        # what was there stays: machines are made with it
        await until_text(cluster, "openshift-machine-api", lambda text: wanted in text)
        await cluster.put_key()
        await until_text(cluster, "openshift-machine-api", lambda text: public in text)
    await connection.close()
