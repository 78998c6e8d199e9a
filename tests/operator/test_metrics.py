"""The metrics: each of them is on the page, and counts what it says."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.settings.bundles import write

from transom.controllers.operator import Operator, Options
from transom.hosts.errors import HostError
from transom.hosts.passes import PassResult
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.operations.metrics import Metrics
from transom.webhook.metrics import Metrics as WebhookMetrics

PAGE = Path(__file__).parents[2] / "docs" / "operator.md"
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "hunter2"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "c",
}


@pytest.fixture
async def metrics(tmp_path: Path) -> Metrics:
    """Of an operator that has not begun."""
    connection = connect(str(Path(write(tmp_path, KUBECONFIG, name="config"), "config")))
    made = Metrics()
    made.follow(Operator(Client(connection), Options()))
    await connection.close()
    return made


def names(text: bytes) -> set[str]:
    """As they are scraped, without what the library adds about counters and histograms."""
    families = text_string_to_metric_families(text.decode())
    return {f"{one.name}_total" if one.type == "counter" else one.name for one in families if not one.name.endswith("_created")}


async def test_every_metric_is_on_the_page_and_no_other(metrics: Metrics) -> None:
    told = set(re.findall(r"`(transom_[a-z0-9_]+)", PAGE.read_text()))
    assert told == names(metrics.text()) | names(WebhookMetrics().text())


async def test_passes_are_counted(metrics: Metrics) -> None:
    for found in (
        PassResult(channels=2, seconds=0.5),
        PassResult(channels=3, seconds=4.0, error=HostError("unreachable")),
        PassResult(channels=2, seconds=0.2),
    ):
        metrics.observe(found)
    text = metrics.text().decode()
    for line in (
        'transom_host_pass_duration_seconds_count{result="unchanged"} 2.0',
        'transom_host_pass_duration_seconds_sum{result="failed"} 4.0',
        'transom_host_pass_duration_seconds_bucket{le="5.0",result="failed"} 1.0',
        'transom_host_pass_duration_seconds_bucket{le="2.5",result="failed"} 0.0',
        "transom_host_channels_total 7.0",
        'transom_queue_depth{controller="hosts"} 0.0',
        "transom_leader 0.0",
        "transom_settings_valid 0.0",
    ):
        assert f"{line}\n" in text
    assert "transom_last_host_pass_timestamp_seconds 1." in text
