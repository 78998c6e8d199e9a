"""A thin slice of what `benchmarks.operator_histories` runs for minutes."""

import random
from pathlib import Path

import pytest
from tests.support.operator.clusters import Cluster
from tests.support.operator.histories import Histories
from tests.support.operator.kubelets import Kubelets

pytestmark = pytest.mark.lab


async def test_random_histories_through_an_api_server(cluster: Cluster, kubelets: Kubelets, tmp_path: Path) -> None:
    histories = Histories(cluster, kubelets, tmp_path)
    await histories.begin()
    # a good and a wrong version, wrong settings, a key, a host that refuses, and a word of a person's
    await histories.live(random.Random(15))
