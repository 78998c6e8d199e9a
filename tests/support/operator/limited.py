"""An operator's client with the rights that the manifests give to some controllers, and no others."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.support.operator.clusters import Cluster
from tests.support.operator.rights import asked

from transom.kube.client import Client
from transom.kube.connection import connect
from transom.manifests.roles import iter_roles


@contextlib.asynccontextmanager
async def limited(cluster: Cluster, *controllers: str, openshift: bool = False) -> AsyncIterator[Client]:
    """What was refused fails the test at the end."""
    plane, namespace = cluster.control_plane, cluster.namespace
    await asyncio.to_thread(plane.apply, list(iter_roles(namespace, controllers, openshift=openshift)))
    token = await asyncio.to_thread(plane.create_service_account_token, namespace, "transom")
    connection = connect(str(plane.write_kubeconfig(f"{namespace}-limited", token)))
    try:
        yield Client(connection)
    finally:
        await connection.close()
    user = f"system:serviceaccount:{namespace}:transom"
    # what is OpenShift's own is asked for everywhere, and is not there where nobody gave the right to see it
    optional = set() if openshift else {"openshift-config", "openshift-machine-api", "openshift-cluster-api"}
    refused = [(use, where) for use, where, code in asked(cluster.control_plane, user, cluster.began) if code in (401, 403)]
    assert [(use, where) for use, where in refused if where not in optional] == []
