"""The WindowsInstances of a namespace by name."""

import asyncio

from tests.support.operator.clusters import Cluster
from tests.support.waiting import PATIENCE

from transom.kube.resources import WINDOWS_INSTANCES


async def names(cluster: Cluster) -> set[str]:
    found = await cluster.client.list_objects(WINDOWS_INSTANCES, cluster.namespace)
    return {item.metadata.name for item in found.items}


async def until_names(cluster: Cluster, wanted: set[str]) -> None:
    found: set[str] = set()
    try:
        async with asyncio.timeout(PATIENCE):
            while found != wanted:
                await asyncio.sleep(0.05)
                found = await names(cluster)
    except TimeoutError:
        raise AssertionError(f"wanted {wanted}, found {found}") from None
