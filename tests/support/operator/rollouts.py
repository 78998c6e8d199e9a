"""A proxy that breaks TLS, and the rollout that it halts."""

import asyncio

from tests.support.operator.clusters import Cluster
from tests.support.waiting import PATIENCE

from transom.kube.resources import EGRESS_PROXIES
from winsim.computer import Invocation


def breaks_tls(_: Invocation) -> int:
    return 60


async def halted(cluster: Cluster, wanted: str) -> str:
    """The message of the condition once it has this status."""
    async with asyncio.timeout(PATIENCE):
        while True:
            status = (await cluster.client.get(EGRESS_PROXIES, "cluster")).value.get("status") or {}
            for condition in status.get("conditions", ()):
                if (condition["type"], condition["status"]) == ("RolloutHalted", wanted):
                    return str(condition["message"])
            await asyncio.sleep(0.05)
