"""What Transom measures of itself, what it promises by that, and what a person is woken for. Pure data.

The metrics, by process: names by Prometheus' convention (base units, `_total` for counters), with bounded labels.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

Kind = Literal["gauge", "counter", "histogram"]
Process = Literal["transom run", "transom webhook"]


class Metric(msgspec.Struct, frozen=True):
    """One metric. `name` is without the suffixes that a counter and a histogram get; `labels` have few values, or one for
    each certificate of the bundle."""

    process: Process
    kind: Kind
    name: str
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def exposed(self) -> str:
        """The name as it is scraped; of a histogram without `_bucket`, `_sum` and `_count`."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


METRICS: Final[list[Metric]] = []


def _run(kind: Kind, name: str, text: str, *labels: str, buckets: Sequence[float] = ()) -> Metric:
    METRICS.append(Metric("transom run", kind, f"transom_{name}", text, labels, tuple(buckets)))
    return METRICS[-1]


def _webhook(kind: Kind, name: str, text: str, *labels: str, buckets: Sequence[float] = ()) -> Metric:
    METRICS.append(Metric("transom webhook", kind, f"transom_webhook_{name}", text, labels, tuple(buckets)))
    return METRICS[-1]


HOSTS: Final = _run("gauge", "hosts", "WindowsInstances by condition and its status.", "condition", "status")
UNCONFIGURED: Final = _run("gauge", "hosts_unconfigured", "WindowsInstances that are not configured, by reason.", "reason")
EGRESS_PROXIES: Final = _run("gauge", "egress_proxies", "EgressProxies by condition and its status.", "condition", "status")
DELAY: Final = _run(
    "histogram",
    "host_settings_delay_seconds",
    "From when a host's settings were no longer those that hold until it has these and is Ready.",
    buckets=(1, 5, 15, 60, 300, 900, 3600, 14400),
)
PASSES: Final = _run(
    "histogram",
    "host_pass_duration_seconds",
    "Passes on hosts, by result: unchanged, changed, failed.",
    "result",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900),
)
CHANNELS: Final = _run("counter", "host_channels", "SSH channels opened on hosts.")
LAST_PASS: Final = _run("gauge", "last_host_pass_timestamp_seconds", "End of the newest pass.")
CHECK_INTERVAL: Final = _run("gauge", "check_interval_seconds", "Between two checks of one host.")
SETTINGS_VALID: Final = _run(
    "gauge", "settings_valid", "1 while the newest settings are valid, for this cluster and each other."
)
TRUST_EXPIRY: Final = _run(
    "gauge", "trust_certificate_expiry_timestamp_seconds", "When a certificate of the trust bundle expires.", "sha256"
)
LEADER: Final = _run("gauge", "leader", "Whether this process holds the lease.")
QUEUE_DEPTH: Final = _run("gauge", "queue_depth", "Keys that wait for a worker.", "controller")
QUEUE_WORKING: Final = _run("gauge", "queue_working", "Keys that are being worked on.", "controller")
QUEUE_FAILING: Final = _run("gauge", "queue_failing", "Keys that failed the last time, and are tried again.", "controller")
MALFORMED: Final = _run(
    "gauge", "objects_malformed", "Objects that do not fit, or are nested too deep: the log and events name them.", "kind"
)
EVENTS_DROPPED: Final = _run("counter", "events_dropped", "Events that could not be told.")
API_REQUESTS: Final = _run(
    "counter",
    "api_requests",
    "Requests to the API server by HTTP status, but for watches; none: no answer, or none in time.",
    "code",
)
API_LISTS: Final = _run("counter", "api_lists", "Lists begun, by kind.", "kind")
API_WATCHES: Final = _run("counter", "api_watches", "Watches begun, by kind.", "kind")

REVIEWS: Final = _webhook("counter", "requests", "Requests by HTTP status.", "code")
LATENCY: Final = _webhook(
    "histogram",
    "request_duration_seconds",
    "Requests, from their headers to their answer.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
PODS: Final = _webhook(
    "counter",
    "pods",
    "Pods by what was done: patched, untouched, withheld (nobody said which namespaces may have the credentials), unknown (the"
    " settings were not known yet).",
    "result",
)
SETTINGS_KNOWN: Final = _webhook("gauge", "settings_known", "Whether the settings are known.")
SERVING_EXPIRY: Final = _webhook("gauge", "certificate_expiry_timestamp_seconds", "When the serving certificate expires.")
