"""The metrics of an operator, as `transom.monitoring` names them."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from transom.common.timestamps import parse_timestamp
from transom.controllers.instance_state.status import TYPES
from transom.controllers.operator import Operator
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.hosts.passes.base_pass import PassResult
from transom.http_server.process_metrics import add_process_metrics
from transom.kube.store import ObjectKey
from transom.monitoring import metric_definitions
from transom.monitoring.metric_definitions import Metric
from transom.reasons.reason_table import REASONS

_CONDITIONS_OF_SETTINGS: Final = (
    "Ready",
    "Valid",
    "TrustBundleValid",
    "EndpointsAnswer",
    "Superseded",
    "PodsInjected",
    "ClustersApplied",
    "CredentialsWithheld",
    "Conflict",
    "MachinesOutdated",
    "MachineNetworkMissing",
    "MachinesNotSupported",
    "RolloutHalted",
    "Propagated",
    "RightsMissing",
    "WritesRefused",
    "ReadsFailed",
)
_STATUSES: Final = ("True", "False", "Unknown")
_OTHER: Final = "Other"
"""The label for a reason that is not Transom's: another program wrote the status."""


class OperatorMetrics:
    """The metrics of one operator: what passes report, and values that are read at each scrape."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        # the creation time would be a second series for each, which no query uses
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        add_process_metrics(self.registry)
        self._now = now
        self._passes = Histogram(
            metric_definitions.PASSES.name,
            metric_definitions.PASSES.help,
            metric_definitions.PASSES.labels,
            buckets=metric_definitions.PASSES.buckets,
            registry=self.registry,
        )
        for result in ("unchanged", "changed", "failed"):
            self._passes.labels(result)
        self._channels = Counter(metric_definitions.CHANNELS.name, metric_definitions.CHANNELS.help, registry=self.registry)
        self._last = Gauge(metric_definitions.LAST_PASS.name, metric_definitions.LAST_PASS.help, registry=self.registry)
        self._delay = Histogram(
            metric_definitions.DELAY.name,
            metric_definitions.DELAY.help,
            buckets=metric_definitions.DELAY.buckets,
            registry=self.registry,
        )
        self._had: dict[ObjectKey, str] = {}
        """The settings that a host had when it was last Ready."""

    def observe(self, result: PassResult) -> None:
        """Count a pass."""
        self._passes.labels(result.result).observe(result.seconds)
        self._channels.inc(result.channels)
        self._last.set_to_current_time()

    def register_operator(self, operator: Operator) -> None:
        """Read this operator's queues, settings and hosts at each scrape, and hear how long hosts wait for their settings."""
        self.registry.register(_StateCollector(operator))
        operator.on_controllers_created(
            lambda: operator.informers.windows_instances.subscribe(
                lambda key, before, after: self._on_host_change(key, before, after, is_reported=operator.working)
            )
        )

    def render(self) -> bytes:
        """All of them in the exposition format 0.0.4."""
        return generate_latest(self.registry)

    def _on_host_change(
        self, key: ObjectKey, before: CachedInstance | None, after: CachedInstance | None, *, is_reported: bool
    ) -> None:
        """Record when a host became Ready with new settings: until then its status has the time of the change."""
        settings = after.live.settings if after is not None else ""
        if after is None or not settings:
            self._had.pop(key, None)
            return
        if after.live.get_condition("Ready").status != "True":
            return
        waited = before.live.get_condition("Ready") if before is not None else None
        since = parse_timestamp(waited.last_transition_time) if waited is not None and waited.status == "False" else None
        if is_reported and since is not None and self._had.get(key, settings) != settings:
            self._delay.observe(max(0.0, (self._now() - since).total_seconds()))
        self._had[key] = settings


class _StateCollector(Collector):
    """What an operator knows at the moment of a scrape."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def describe(self) -> Iterator[Family]:
        """Nothing: names are known without a first collection."""
        return iter(())

    def collect(self) -> Iterator[Family]:
        """All of it."""
        operator = self._operator
        queues = {name: controller.queue for name, controller in operator.controllers.items()}
        yield _build_family(metric_definitions.QUEUE_DEPTH, {(name,): len(queue) for name, queue in queues.items()})
        yield _build_family(metric_definitions.QUEUE_WORKING, {(name,): queue.working for name, queue in queues.items()})
        yield _build_family(metric_definitions.QUEUE_FAILING, {(name,): queue.failing for name, queue in queues.items()})
        yield _build_family(metric_definitions.LEADER, {(): operator.working})
        yield _build_family(metric_definitions.CHECK_INTERVAL, {(): operator.check_interval})
        yield _build_family(metric_definitions.SETTINGS_VALID, {(): operator.settings.valid})
        yield _count_hosts(operator)
        yield _measure_unconfigured(operator)
        yield _count_egress_proxies(operator)
        yield _build_family(metric_definitions.PODS_REFUSED, {(): _are_pods_refused(operator)})
        rights = operator.rights
        refused = {"RightMissing": rights.missing, "WriteRefused": rights.refused, "ReadFailed": rights.unread}
        counts = {(reason,): len(items) for reason, items in refused.items()}
        yield _build_family(metric_definitions.REQUESTS_REFUSED, counts)
        own = operator.settings.own
        yield _build_family(
            metric_definitions.TRUST_EXPIRY, {(item.sha256,): item.not_after.timestamp() for item in (own.trust if own else ())}
        )
        yield _count_malformed(operator)
        yield _build_family(metric_definitions.EVENTS_DROPPED, {(): operator.dropped_events})
        yield _build_family(
            metric_definitions.API_REQUESTS, {(code,): count for code, count in operator.response_counts.items()}
        )
        lists, watches = dict.fromkeys(operator.informers.kinds, 0), dict.fromkeys(operator.informers.kinds, 0)
        for kind, reflector in zip(operator.informers.kinds, operator.informers.reflectors, strict=True):
            lists[kind] += reflector.lists
            watches[kind] += reflector.watches
        yield _build_family(metric_definitions.API_LISTS, {(kind,): count for kind, count in lists.items()})
        yield _build_family(metric_definitions.API_WATCHES, {(kind,): count for kind, count in watches.items()})


def _build_family(metric: Metric, values: Mapping[Any, float]) -> Family:
    """`values` by the values of the labels, in the order of `one.labels`."""
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, float(value))
    return family


def _count_malformed(operator: Operator) -> Family:
    counts = dict.fromkeys(operator.informers.kinds, 0)
    for kind, _ in operator.informers.iter_malformed():
        counts[kind] += 1
    return _build_family(metric_definitions.MALFORMED, {(kind,): count for kind, count in counts.items()})


def _count_hosts(operator: Operator) -> Family:
    counts = {(type_, status): 0 for type_ in TYPES for status in _STATUSES}
    for cached in operator.informers.windows_instances.take_snapshot():
        conditions = {condition.type: condition.status for condition in cached.live.conditions}
        for type_ in TYPES:
            status = conditions.get(type_)
            counts[type_, status if status in _STATUSES else "Unknown"] += 1
    return _build_family(metric_definitions.HOSTS, counts)


def _measure_unconfigured(operator: Operator) -> Family:
    counts = dict.fromkeys((("KeyMissing",), ("KeyInvalid",), ("Unreachable",)), 0)
    for cached in operator.informers.windows_instances.take_snapshot():
        configured = cached.live.get_condition("Configured")
        if configured.status == "False":
            reason = configured.reason if configured.reason in REASONS else _OTHER
            counts[(reason,)] = counts.get((reason,), 0) + 1
    return _build_family(metric_definitions.UNCONFIGURED, counts)


def _are_pods_refused(operator: Operator) -> bool:
    statuses = (cached.value.get("status") or {} for cached in operator.informers.egress_proxies.take_snapshot())
    return any(
        (condition.get("type"), condition.get("reason")) == ("PodsInjected", "PodsRefused")
        for status in statuses
        for condition in status.get("conditions") or ()
    )


def _count_egress_proxies(operator: Operator) -> Family:
    counts = {(type_, status): 0 for type_ in _CONDITIONS_OF_SETTINGS for status in _STATUSES}
    for cached in operator.informers.egress_proxies.take_snapshot():
        for condition in (cached.value.get("status") or {}).get("conditions") or ():
            where = condition.get("type"), condition.get("status")
            if where in counts:
                counts[where] += 1
    return _build_family(metric_definitions.EGRESS_PROXIES, counts)
