"""The metrics: each of them is on the page, and counts what it says."""

import re
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.bundles import write
from tests.support.repository import DOCS

from transom.controllers.operator import Operator, Options
from transom.hosts.errors import HostError
from transom.hosts.passes.passes import PassResult
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.operations import server
from transom.operations.metrics import OperatorMetrics
from transom.webhook.metrics import WebhookMetrics

PAGE = DOCS / "operator.md"
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "hunter2"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "c",
}


@pytest.fixture
async def metrics(tmp_path: Path) -> OperatorMetrics:
    """Of an operator that has not begun."""
    connection = connect(str(Path(write(tmp_path, KUBECONFIG, name="config"), "config")))
    made = OperatorMetrics()
    made.follow(Operator(Client(connection), Options()))
    await connection.close()
    return made


def names(text: bytes) -> set[str]:
    """As they are scraped, without what the library adds about counters and histograms."""
    families = text_string_to_metric_families(text.decode())
    return {f"{one.name}_total" if one.type == "counter" else one.name for one in families if not one.name.endswith("_created")}


async def test_every_metric_is_on_the_page_and_no_other(metrics: OperatorMetrics) -> None:
    told = set(re.findall(r"`(transom_[a-z0-9_]+)", PAGE.read_text()))
    assert told == names(metrics.text()) | names(WebhookMetrics().text())


async def test_passes_are_counted(metrics: OperatorMetrics) -> None:
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


@pytest.mark.parametrize(
    ("remote", "itself"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.1.2.3", False),
        ("::ffff:10.1.2.3", False),
        (None, False),
    ],
)
def test_who_is_the_pod_itself(remote: str | None, itself: bool) -> None:
    assert server.is_loopback(remote) is itself


@pytest.mark.parametrize(("local", "outside", "code"), [(False, True, 200), (True, False, 200), (True, True, 403)])
async def test_metrics_for_the_pod_itself(local: bool, outside: bool, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a proxy in the pod they are answered on the loopback address alone; probes come from outside."""
    if outside:
        monkeypatch.setattr(server, "is_loopback", lambda _: False)
    async with (
        server.serving(("127.0.0.1", 0), lambda: True, WebhookMetrics(), local_metrics=local) as port,
        aiohttp.ClientSession(trust_env=False) as session,
    ):
        codes = []
        for path in ("/metrics", "/healthz", "/readyz"):
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                codes.append(response.status)
    assert codes == [code, 200, 200]
