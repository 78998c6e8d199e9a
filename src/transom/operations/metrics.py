"""The metrics of an operator, as `transom.monitoring` names them."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from transom import monitoring
from transom.controllers.instance.status import TYPES
from transom.controllers.operator import Operator
from transom.controllers.runtime.cached import CachedInstance
from transom.controllers.runtime.conditions import moment
from transom.hosts.passes import PassResult
from transom.kube.store import ObjectKey
from transom.monitoring import Metric
from transom.reasons import REASONS

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
    "RolloutHalted",
    "Propagated",
)
_STATUSES: Final = ("True", "False", "Unknown")
_OTHER: Final = "Other"
"""Stands for a reason that is not Transom's: somebody else wrote the status."""


class OperatorMetrics:
    """The metrics of one operator: what passes say of themselves, and what is read when somebody asks."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        # when a series was made is a second one for each, which nobody asks for
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._now = now
        self._passes = Histogram(
            monitoring.PASSES.name,
            monitoring.PASSES.help,
            monitoring.PASSES.labels,
            buckets=monitoring.PASSES.buckets,
            registry=self.registry,
        )
        for result in ("unchanged", "changed", "failed"):
            self._passes.labels(result)
        self._channels = Counter(monitoring.CHANNELS.name, monitoring.CHANNELS.help, registry=self.registry)
        self._last = Gauge(monitoring.LAST_PASS.name, monitoring.LAST_PASS.help, registry=self.registry)
        self._delay = Histogram(
            monitoring.DELAY.name, monitoring.DELAY.help, buckets=monitoring.DELAY.buckets, registry=self.registry
        )
        self._had: dict[ObjectKey, str] = {}
        """The settings that a host had when it was last Ready."""

    def observe(self, found: PassResult) -> None:
        """Count a pass."""
        self._passes.labels(found.result).observe(found.seconds)
        self._channels.inc(found.channels)
        self._last.set_to_current_time()

    def follow(self, operator: Operator) -> None:
        """Read this operator's queues, settings and hosts at each scrape, and hear how long hosts wait for their settings."""
        self.registry.register(_StateCollector(operator))
        operator.informers.windows_instances.subscribe(
            lambda key, before, after: self._host_changed(key, before, after, told=operator.working)
        )

    def text(self) -> bytes:
        """All of them in the exposition format 0.0.4."""
        return generate_latest(self.registry)

    def _host_changed(self, key: ObjectKey, before: CachedInstance | None, after: CachedInstance | None, *, told: bool) -> None:
        """A host that has come to other settings was not Ready from when they were valid: the status says since when."""
        settings = after.live.settings if after is not None else ""
        if after is None or not settings:
            self._had.pop(key, None)
            return
        if after.live.condition("Ready").status != "True":
            return
        waited = before.live.condition("Ready") if before is not None else None
        since = moment(waited.last_transition_time) if waited is not None and waited.status == "False" else None
        if told and since is not None and self._had.get(key, settings) != settings:
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
        yield _family(monitoring.QUEUE_DEPTH, {(name,): len(queue) for name, queue in queues.items()})
        yield _family(monitoring.QUEUE_WORKING, {(name,): queue.working for name, queue in queues.items()})
        yield _family(monitoring.QUEUE_FAILING, {(name,): queue.failing for name, queue in queues.items()})
        yield _family(monitoring.LEADER, {(): operator.working})
        yield _family(monitoring.CHECK_INTERVAL, {(): operator.check_interval})
        yield _family(monitoring.SETTINGS_VALID, {(): operator.settings.valid})
        yield _hosts(operator)
        yield _unconfigured(operator)
        yield _egress_proxies(operator)
        own = operator.settings.own
        yield _family(monitoring.TRUST_EXPIRY, {(one.sha256,): one.not_after.timestamp() for one in (own.trust if own else ())})
        yield _malformed(operator)
        yield _family(monitoring.EVENTS_DROPPED, {(): operator.dropped_events})
        yield _family(monitoring.API_REQUESTS, {(code,): count for code, count in operator.answers.items()})
        lists, watches = dict.fromkeys(operator.informers.kinds, 0), dict.fromkeys(operator.informers.kinds, 0)
        for kind, reflector in zip(operator.informers.kinds, operator.informers.reflectors, strict=True):
            lists[kind] += reflector.lists
            watches[kind] += reflector.watches
        yield _family(monitoring.API_LISTS, {(kind,): count for kind, count in lists.items()})
        yield _family(monitoring.API_WATCHES, {(kind,): count for kind, count in watches.items()})


def _family(one: Metric, values: Mapping[Any, float]) -> Family:
    """`values` by the values of the labels, in the order of `one.labels`."""
    kind = CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily
    family = kind(one.name, one.help, labels=one.labels)
    for labels, value in values.items():
        family.add_metric(labels, float(value))
    return family


def _malformed(operator: Operator) -> Family:
    counts = dict.fromkeys(operator.informers.kinds, 0)
    for kind, _ in operator.informers.malformed():
        counts[kind] += 1
    return _family(monitoring.MALFORMED, {(kind,): count for kind, count in counts.items()})


def _hosts(operator: Operator) -> Family:
    counts = {(type_, status): 0 for type_ in TYPES for status in _STATUSES}
    for cached in operator.informers.windows_instances.snapshot():
        conditions = {one.type: one.status for one in cached.live.conditions}
        for type_ in TYPES:
            status = conditions.get(type_)
            counts[type_, status if status in _STATUSES else "Unknown"] += 1
    return _family(monitoring.HOSTS, counts)


def _unconfigured(operator: Operator) -> Family:
    counts = dict.fromkeys((("KeyMissing",), ("KeyInvalid",), ("Unreachable",)), 0)
    for cached in operator.informers.windows_instances.snapshot():
        configured = cached.live.condition("Configured")
        if configured.status == "False":
            reason = configured.reason if configured.reason in REASONS else _OTHER
            counts[(reason,)] = counts.get((reason,), 0) + 1
    return _family(monitoring.UNCONFIGURED, counts)


def _egress_proxies(operator: Operator) -> Family:
    counts = {(type_, status): 0 for type_ in _CONDITIONS_OF_SETTINGS for status in _STATUSES}
    for cached in operator.informers.egress_proxies.snapshot():
        for one in (cached.value.get("status") or {}).get("conditions") or ():
            where = one.get("type"), one.get("status")
            if where in counts:
                counts[where] += 1
    return _family(monitoring.EGRESS_PROXIES, counts)
