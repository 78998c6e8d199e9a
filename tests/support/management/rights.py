"""An operator with the rights that its manifests give it, and what of them it has used."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from tests.support.management.management import Management
from tests.support.operator.rights import granted

from transom.kube.client import Client
from transom.kube.connection import connect
from transom.manifests.roles import iter_roles


@contextlib.asynccontextmanager
async def limited(management: Management, controllers: Sequence[str], ours: Sequence[str]) -> AsyncIterator[None]:
    """`controllers` at work; in the end nothing was refused, and each verb that `ours` ask for was used."""
    plane, namespace = management.control_plane, management.namespace
    began = plane.get_moment()
    await asyncio.to_thread(plane.apply, list(iter_roles(namespace, controllers)))
    token = await asyncio.to_thread(plane.create_service_account_token, namespace, "transom")
    connection = connect(str(plane.write_kubeconfig(f"{namespace}-limited", token)))
    user = f"system:serviceaccount:{namespace}:transom"
    wanted = granted(list(iter_roles(namespace, ours)), "ClusterRole") - granted(list(iter_roles(namespace, ())), "ClusterRole")

    async def used() -> bool:
        entries = [item for item in plane.read_audit(began) if item["user"]["username"] == user and "objectRef" in item]
        refused = [entry["requestURI"] for entry in entries if entry.get("responseStatus", {}).get("code") in (401, 403)]
        assert refused == []
        return wanted <= {
            (entry["objectRef"].get("apiGroup", ""), entry["objectRef"]["resource"], entry["verb"]) for entry in entries
        }

    try:
        async with management.operator(Client(connection), controllers=controllers):
            yield
            await management.until(used)
    finally:
        await connection.close()
