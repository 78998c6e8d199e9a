"""Prometheus metrics of the admission server."""

from collections.abc import Callable
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import generate_latest

from transom.pods.patch import Patch


class WebhookMetrics:
    """What requests became."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        requests = Counter("transom_webhook_requests", "Requests by HTTP status.", ["code"], registry=self.registry)
        pods = Counter("transom_webhook_pods", "Pods by what was done.", ["result"], registry=self.registry)
        self._requests = requests
        self._ok = requests.labels("200")
        self._patched, self._untouched = pods.labels("patched"), pods.labels("untouched")
        self._expiry = Gauge(
            "transom_webhook_certificate_expiry_timestamp_seconds",
            "When the serving certificate expires.",
            registry=self.registry,
        )
        self._known = Gauge("transom_webhook_settings_known", "Whether the settings are known.", registry=self.registry)

    def count_request(self, code: int) -> None:
        """Count an answer."""
        if code == 200:
            self._ok.inc()
        else:
            self._requests.labels(str(code)).inc()

    def count_pod(self, made: Patch) -> None:
        """Count a pod."""
        (self._patched if made.operations else self._untouched).inc()

    def expires(self, when: datetime) -> None:
        """Note the end of the certificate that is shown."""
        self._expiry.set(when.timestamp())

    def follow(self, known: Callable[[], bool]) -> None:
        """Ask at each scrape whether the settings are known."""
        self._known.set_function(lambda: float(known()))

    def text(self) -> bytes:
        """All of them in the exposition format 0.0.4."""
        return generate_latest(self.registry)
