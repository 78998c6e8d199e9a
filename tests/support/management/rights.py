"""An operator with the rights that its manifests give it, and what of them it has used."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from tests.support.management.management import Management
from tests.support.operator.rights import granted

from transom.kube.client import Client
from transom.kube.connection import connect
from transom.manifests.roles import roles


@contextlib.asynccontextmanager
async def limited(management: Management, controllers: Sequence[str], ours: Sequence[str]) -> AsyncIterator[None]:
    """`controllers` at work; in the end nothing was refused, and each verb that `ours` ask for was used."""
    plane, namespace = management.control_plane, management.namespace
    began = plane.moment()
    await asyncio.to_thread(plane.apply, list(roles(namespace, controllers)))
    token = await asyncio.to_thread(plane.service_account_token, namespace, "transom")
    connection = connect(str(plane.user_kubeconfig(f"{namespace}-limited", token)))
    user = f"system:serviceaccount:{namespace}:transom"
    wanted = granted(list(roles(namespace, ours)), "ClusterRole") - granted(list(roles(namespace, ())), "ClusterRole")

    async def used() -> bool:
        entries = [one for one in plane.audit(began) if one["user"]["username"] == user and "objectRef" in one]
        refused = [one["requestURI"] for one in entries if one.get("responseStatus", {}).get("code") in (401, 403)]
        assert refused == []
        return wanted <= {(one["objectRef"].get("apiGroup", ""), one["objectRef"]["resource"], one["verb"]) for one in entries}

    try:
        async with management.operator(Client(connection), controllers=controllers):
            yield
            await management.until(used)
    finally:
        await connection.close()
