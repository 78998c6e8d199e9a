"""Prometheus metrics, named by its convention: base units, `_total` for counters."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from transom.controllers.operator import Operator
from transom.hosts.passes.passes import PassResult

_SECONDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900)
_CONDITIONS: Final = ("Reachable", "Configured", "ProxyApplied", "TrustApplied", "NodeReady", "RebootRequired")


class OperatorMetrics:
    """The metrics of one operator: what passes say of themselves, and what is read when somebody asks."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._passes = Histogram(
            "transom_host_pass_duration_seconds",
            "Passes on hosts, by result.",
            ["result"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._channels = Counter("transom_host_channels", "SSH channels opened on hosts.", registry=self.registry)
        self._last = Gauge("transom_last_host_pass_timestamp_seconds", "End of the newest pass.", registry=self.registry)

    def observe(self, found: PassResult) -> None:
        """Count a pass."""
        self._passes.labels(found.result).observe(found.seconds)
        self._channels.inc(found.channels)
        self._last.set_to_current_time()

    def follow(self, operator: Operator) -> None:
        """Read this operator's queues, settings and hosts at each scrape."""
        self.registry.register(_State(operator))

    def text(self) -> bytes:
        """All of them in the exposition format 0.0.4."""
        return generate_latest(self.registry)


class _State(Collector):
    """What an operator knows at the moment of a scrape."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def describe(self) -> Iterator[Metric]:
        """Nothing: names are known without a first collection."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """All of it."""
        operator = self._operator
        waiting = GaugeMetricFamily("transom_queue_depth", "Keys that wait for a worker.", labels=["controller"])
        worked_on = GaugeMetricFamily("transom_queue_working", "Keys that are being worked on.", labels=["controller"])
        for name, controller in operator.controllers.items():
            waiting.add_metric([name], len(controller.queue))
            worked_on.add_metric([name], controller.queue.working)
        yield waiting
        yield worked_on
        yield _gauge("transom_leader", "Whether this process holds the lease.", operator.working)
        yield _gauge("transom_settings_valid", "Whether the newest settings are valid.", operator.settings.valid)
        yield _hosts(operator)
        yield _unconfigured(operator)
        yield from _certificates(operator)
        yield _malformed(operator)
        yield CounterMetricFamily("transom_events_dropped", "Events that could not be told.", value=operator.dropped_events)
        lists = CounterMetricFamily("transom_api_lists", "Lists begun, by kind.", labels=["kind"])
        watches = CounterMetricFamily("transom_api_watches", "Watches begun, by kind.", labels=["kind"])
        counts: dict[str, tuple[int, int]] = {}
        for kind, reflector in zip(operator.informers.kinds, operator.informers.reflectors, strict=True):
            listed, informers = counts.get(kind, (0, 0))
            counts[kind] = listed + reflector.lists, informers + reflector.watches
        for kind, (listed, informers) in counts.items():
            lists.add_metric([kind], listed)
            watches.add_metric([kind], informers)
        yield lists
        yield watches


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=float(value))


def _malformed(operator: Operator) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "transom_objects_malformed", "Objects of which not everything could be read, by kind.", labels=["kind"]
    )
    counts = dict.fromkeys(operator.informers.kinds, 0)
    for kind, _ in operator.informers.malformed():
        counts[kind] += 1
    for kind, count in counts.items():
        family.add_metric([kind], count)
    return family


def _hosts(operator: Operator) -> GaugeMetricFamily:
    family = GaugeMetricFamily("transom_hosts", "WindowsInstances by condition and its status.", labels=["condition", "status"])
    counts = dict.fromkeys(((type_, status) for type_ in _CONDITIONS for status in ("True", "False", "Unknown")), 0)
    for cached in operator.informers.windows_instances.snapshot():
        conditions = {one["type"]: one["status"] for one in cached.live.get("conditions") or ()}
        for type_ in _CONDITIONS:
            counts[type_, conditions.get(type_, "Unknown")] += 1
    for labels, count in counts.items():
        family.add_metric(list(labels), count)
    return family


def _unconfigured(operator: Operator) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "transom_hosts_unconfigured", "WindowsInstances that are not configured, by reason.", labels=["reason"]
    )
    counts = dict.fromkeys(("KeyMissing", "KeyInvalid", "Unreachable"), 0)
    for cached in operator.informers.windows_instances.snapshot():
        for one in cached.live.get("conditions") or ():
            if one["type"] == "Configured" and one["status"] == "False":
                counts[one["reason"]] = counts.get(one["reason"], 0) + 1
    for reason, count in counts.items():
        family.add_metric([reason], count)
    return family


def _certificates(operator: Operator) -> Iterator[Metric]:
    egress = operator.settings.own
    family = GaugeMetricFamily(
        "transom_trust_certificate_expiry_timestamp_seconds",
        "When a certificate of the trust bundle expires.",
        labels=["sha256"],
    )
    for certificate in egress.trust if egress else ():
        family.add_metric([certificate.sha256], certificate.not_after.timestamp())
    yield family
