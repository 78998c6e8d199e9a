"""A proxy that breaks TLS, and the rollout that it halts."""

import asyncio

from tests.support.operator.clusters import Cluster
from tests.support.waiting import PATIENCE

from transom.kube.resources import EGRESS_PROXIES
from winsim.processes import Invocation


def breaks_tls(_: Invocation) -> int:
    return 60


async def halted(cluster: Cluster, wanted: str) -> str:
    """The message of the condition once it has this status."""
    async with asyncio.timeout(PATIENCE):
        while True:
            status = (await cluster.client.get(EGRESS_PROXIES, "cluster")).value.get("status") or {}
            for one in status.get("conditions", ()):
                if (one["type"], one["status"]) == ("RolloutHalted", wanted):
                    return str(one["message"])
            await asyncio.sleep(0.05)
