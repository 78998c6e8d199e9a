"""The metrics: each of them is in the table, and counts what it says."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.bundles import write

from transom.controllers.operator import Operator, Options
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.hosts.errors import HostError
from transom.hosts.passes.base_pass import PassResult
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.store import ObjectKey
from transom.monitoring.metric_definitions import METRICS
from transom.operations import server
from transom.operations.metrics import OperatorMetrics, _measure_unconfigured
from transom.pods.decision import WITHHELD
from transom.pods.patch import Operation, Patch
from transom.webhook.metrics import WebhookMetrics

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
    made.register_operator(Operator(Client(connection), Options()))
    await connection.close()
    return made


async def test_what_is_scraped_is_what_the_table_has(metrics: OperatorMetrics) -> None:
    for process, text in (("transom run", metrics.render()), ("transom webhook", WebhookMetrics().render())):
        families = {
            text_string_to_metric_family.name: text_string_to_metric_family
            for text_string_to_metric_family in text_string_to_metric_families(text.decode())
        }
        table = {metric.name: metric for metric in METRICS if metric.process == process}
        assert families.keys() == table.keys()
        for name, item in table.items():
            assert (families[name].type, families[name].documentation) == (item.kind, item.help)
            labels = {label for sample in families[name].samples for label in sample.labels} - {"le"}
            assert labels <= set(item.labels), name


async def test_passes_are_counted(metrics: OperatorMetrics) -> None:
    for item in (
        PassResult(channels=2, seconds=0.5),
        PassResult(channels=3, seconds=4.0, error=HostError("unreachable")),
        PassResult(channels=2, seconds=0.2),
    ):
        metrics.observe(item)
    text = metrics.render().decode()
    for line in (
        'transom_host_pass_duration_seconds_count{result="unchanged"} 2.0',
        'transom_host_pass_duration_seconds_sum{result="failed"} 4.0',
        'transom_host_pass_duration_seconds_bucket{le="5.0",result="failed"} 1.0',
        'transom_host_pass_duration_seconds_bucket{le="2.5",result="failed"} 0.0',
        "transom_host_channels_total 7.0",
        'transom_queue_depth{controller="hosts"} 0.0',
        "transom_leader 0.0",
        "transom_settings_valid 0.0",
        "transom_check_interval_seconds 1800.0",
        'transom_api_requests_total{code="none"} 0.0',
        'transom_egress_proxies{condition="RolloutHalted",status="True"} 0.0',
    ):
        assert f"{line}\n" in text
    assert "transom_last_host_pass_timestamp_seconds 1." in text


def instance(settings: str, ready: str, since: str = "2026-11-23T09:00:00Z") -> CachedInstance:
    conditions = [{"type": "Ready", "status": ready, "reason": "R", "lastTransitionTime": since}]
    status = {"settings": settings, "conditions": conditions}
    return msgspec.convert({"metadata": {"name": "win-1"}, "status": status}, CachedInstance)


async def test_how_long_a_host_waits_for_other_settings() -> None:
    """It is told once it has them and is Ready, of the leader alone, and not where it was only away for a while."""
    metrics = OperatorMetrics(lambda: datetime(2026, 11, 23, 9, 0, 20, tzinfo=UTC))
    key = ObjectKey("transom-system", "win-1")

    def count() -> tuple[float | None, float | None]:
        name = "transom_host_settings_delay_seconds"
        return metrics.registry.get_sample_value(f"{name}_count"), metrics.registry.get_sample_value(f"{name}_sum")

    def changed(before: CachedInstance | None, after: CachedInstance | None, *, told: bool = True) -> None:
        metrics._on_host_change(key, before, after, is_reported=told)

    changed(None, instance("a", "True"))
    changed(instance("a", "True"), instance("a", "False"))
    changed(instance("a", "False"), instance("a", "True"))
    assert count() == (0, 0)
    changed(instance("a", "True"), instance("b", "False"))
    changed(instance("b", "False"), instance("b", "True"))
    assert count() == (1, 20)
    changed(instance("b", "False"), instance("c", "True"), told=False)
    assert count() == (1, 20)
    changed(instance("c", "True"), None)
    changed(None, instance("d", "False"))
    changed(instance("d", "False"), instance("d", "True"))
    assert count() == (1, 20), "a new host has waited for nothing"


def test_a_reason_of_somebody_else_is_no_series_of_its_own() -> None:
    conditions = [{"type": "Configured", "status": "False", "reason": reason} for reason in ("Unreachable", "x1", "x2")]
    hosts = [
        msgspec.convert({"metadata": {"name": "win"}, "status": {"conditions": [condition]}}, CachedInstance)
        for condition in conditions
    ]
    operator: Any = SimpleNamespace(informers=SimpleNamespace(windows_instances=SimpleNamespace(take_snapshot=lambda: hosts)))
    found = {sample.labels["reason"]: sample.value for sample in _measure_unconfigured(operator).samples}
    assert found == {"KeyMissing": 0, "KeyInvalid": 0, "Unreachable": 1, "Other": 2}


def test_pods_by_what_was_done() -> None:
    metrics = WebhookMetrics()
    for made in (None, Patch(), Patch(proxy=WITHHELD), Patch((Operation("add", "/x"),), proxy=WITHHELD)):
        metrics.count_pod(made)
    for result in ("unknown", "untouched", "withheld", "patched"):
        assert metrics.registry.get_sample_value("transom_webhook_pods_total", {"result": result}) == 1


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
        server.serve(("127.0.0.1", 0), lambda: True, WebhookMetrics(), local_metrics=local) as port,
        aiohttp.ClientSession(trust_env=False) as session,
    ):
        codes = []
        for path in ("/metrics", "/healthz", "/readyz"):
            async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                codes.append(response.status)
    assert codes == [code, 200, 200]
