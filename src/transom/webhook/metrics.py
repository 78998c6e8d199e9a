"""Prometheus metrics of the admission server."""

from collections.abc import Callable
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import generate_latest

from transom.http_server.process_metrics import add_process_metrics
from transom.monitoring.metric_definitions import CONNECTIONS_DROPPED, LATENCY, PODS, REVIEWS, SERVING_EXPIRY, SETTINGS_KNOWN
from transom.pods.decision import WITHHELD
from transom.pods.patch import Patch
from transom.webhook.review import TOO_LARGE


class WebhookMetrics:
    """What requests became."""

    def __init__(self) -> None:
        # the creation time would be a second series for each, which no query uses
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        add_process_metrics(self.registry)
        self._requests = Counter(REVIEWS.name, REVIEWS.help, REVIEWS.labels, registry=self.registry)
        self._ok = self._requests.labels("200")
        self._latency = Histogram(LATENCY.name, LATENCY.help, buckets=LATENCY.buckets, registry=self.registry)
        pods = Counter(PODS.name, PODS.help, PODS.labels, registry=self.registry)
        results = ("patched", "untouched", "withheld", "too_large", "unknown")
        self._patched, self._untouched, self._withheld, self._too_large, self._unknown = map(pods.labels, results)
        dropped = CONNECTIONS_DROPPED
        self._dropped = Counter(dropped.name, dropped.help, dropped.labels, registry=self.registry)
        self._expiry = Gauge(SERVING_EXPIRY.name, SERVING_EXPIRY.help, registry=self.registry)
        self._known = Gauge(SETTINGS_KNOWN.name, SETTINGS_KNOWN.help, registry=self.registry)

    def count_request(self, code: int, seconds: float) -> None:
        """Count an answer, and how long it took."""
        self._latency.observe(seconds)
        if code == 200:
            self._ok.inc()
        else:
            self._requests.labels(str(code)).inc()

    def count_pod(self, patch: Patch | None) -> None:
        """Count a pod; None: the settings are not known."""
        if patch is None:
            self._unknown.inc()
        elif patch.operations:
            self._patched.inc()
        else:
            counters = {WITHHELD: self._withheld, **dict.fromkeys(TOO_LARGE, self._too_large)}
            counters.get(patch.proxy or "", self._untouched).inc()

    def count_dropped(self) -> None:
        """Count a connection that ended for another one."""
        self._dropped.inc()

    def set_expiry(self, when: datetime) -> None:
        """Note the end of the certificate that is shown."""
        self._expiry.set(when.timestamp())

    def register_settings_probe(self, are_settings_known: Callable[[], bool]) -> None:
        """Ask at each scrape whether the settings are known."""
        self._known.set_function(lambda: float(are_settings_known()))

    def render(self) -> bytes:
        """All of them in the exposition format 0.0.4."""
        return generate_latest(self.registry)
