"""A thin slice of what `benchmarks.operator_histories` runs for minutes."""

import random

import pytest
from tests.support.operator.clusters import Cluster
from tests.support.operator.histories import HOSTS, Histories

pytestmark = pytest.mark.lab


async def test_random_histories_through_an_api_server(cluster: Cluster) -> None:
    hosts = [await cluster.simulator.add_host() for _ in range(HOSTS)]
    histories = Histories(cluster, hosts)
    await histories.begin()
    for seed in (0, 5):
        await histories.live(random.Random(seed))
