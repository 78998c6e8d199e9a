"""The metrics, by process.

Names follow Prometheus' convention (base units, `_total` for counters), with bounded labels.
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
    def exposed_name(self) -> str:
        """Return the name in Prometheus, for a histogram without `_bucket`, `_sum` and `_count`."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


METRICS: Final[list[Metric]] = []


def _define_operator_metric(kind: Kind, name: str, text: str, *labels: str, buckets: Sequence[float] = ()) -> Metric:
    METRICS.append(Metric("transom run", kind, f"transom_{name}", text, labels, tuple(buckets)))
    return METRICS[-1]


def _define_webhook_metric(kind: Kind, name: str, text: str, *labels: str, buckets: Sequence[float] = ()) -> Metric:
    METRICS.append(Metric("transom webhook", kind, f"transom_webhook_{name}", text, labels, tuple(buckets)))
    return METRICS[-1]


def _define_shared_metric(kind: Kind, name: str, text: str, *labels: str) -> Metric:
    METRICS.extend(Metric(process, kind, name, text, labels) for process in ("transom run", "transom webhook"))
    return METRICS[-1]


BUILD_INFO: Final = _define_shared_metric(
    "gauge", "transom_build_info", "1, with the version and the commit of the build.", "version", "revision"
)
CPU: Final = _define_shared_metric("counter", "process_cpu_seconds", "Total user and system CPU time spent in seconds.")
MEMORY: Final = _define_shared_metric("gauge", "process_resident_memory_bytes", "Resident memory size in bytes.")
VIRTUAL_MEMORY: Final = _define_shared_metric("gauge", "process_virtual_memory_bytes", "Virtual memory size in bytes.")
START: Final = _define_shared_metric(
    "gauge", "process_start_time_seconds", "Start time of the process since unix epoch in seconds."
)
OPEN_FILES: Final = _define_shared_metric("gauge", "process_open_fds", "Number of open file descriptors.")
MAX_FILES: Final = _define_shared_metric("gauge", "process_max_fds", "Maximum number of open file descriptors.")
"""The names and texts of `process_*` are those of prometheus_client (process_collector.py)."""
HOSTS: Final = _define_operator_metric("gauge", "hosts", "WindowsInstances, by condition and status.", "condition", "status")
UNCONFIGURED: Final = _define_operator_metric(
    "gauge", "hosts_unconfigured", "WindowsInstances that are not configured, by reason.", "reason"
)
EGRESS_PROXIES: Final = _define_operator_metric(
    "gauge", "egress_proxies", "EgressProxies, by condition and status.", "condition", "status"
)
PODS_REFUSED: Final = _define_operator_metric(
    "gauge",
    "pods_refused",
    "1 if the API server refuses new pods, because `failurePolicy` is `Fail` and the admission server does not answer.",
)
REQUESTS_REFUSED: Final = _define_operator_metric(
    "gauge",
    "requests_refused",
    "Kinds of requests that the API server has refused for 30 s, by reason: RightMissing, WriteRefused (a quota, an admission"
    " webhook, a full etcd), or ReadFailed (a kind that it cannot read from etcd).",
    "reason",
)
DELAY: Final = _define_operator_metric(
    "histogram",
    "host_settings_delay_seconds",
    "Time from a change of the settings until a host has them and is Ready.",
    buckets=(1, 5, 15, 60, 300, 900, 3600, 14400),
)
PASSES: Final = _define_operator_metric(
    "histogram",
    "host_pass_duration_seconds",
    "Duration of passes on hosts, by result: unchanged, changed, failed.",
    "result",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900),
)
CHANNELS: Final = _define_operator_metric("counter", "host_channels", "SSH channels opened on hosts.")
LAST_PASS: Final = _define_operator_metric("gauge", "last_host_pass_timestamp_seconds", "End of the latest pass.")
CHECK_INTERVAL: Final = _define_operator_metric("gauge", "check_interval_seconds", "Interval between two checks of a host.")
SETTINGS_VALID: Final = _define_operator_metric(
    "gauge", "settings_valid", "1 if the latest settings are valid, for this cluster and for every workload cluster."
)
TRUST_EXPIRY: Final = _define_operator_metric(
    "gauge", "trust_certificate_expiry_timestamp_seconds", "Expiry of a certificate of the trust bundle.", "sha256"
)
LEADER: Final = _define_operator_metric("gauge", "leader", "1 if this process holds the lease.")
QUEUE_DEPTH: Final = _define_operator_metric("gauge", "queue_depth", "Keys that wait for a worker.", "controller")
QUEUE_WORKING: Final = _define_operator_metric("gauge", "queue_working", "Keys that workers are processing.", "controller")
QUEUE_FAILING: Final = _define_operator_metric(
    "gauge", "queue_failing", "Keys that failed last time and are retried.", "controller"
)
MALFORMED: Final = _define_operator_metric(
    "gauge",
    "objects_malformed",
    "Objects that do not match their schema or are nested too deeply, as named in logs and events.",
    "kind",
)
EVENTS_DROPPED: Final = _define_operator_metric("counter", "events_dropped", "Events that could not be sent.")
API_REQUESTS: Final = _define_operator_metric(
    "counter",
    "api_requests",
    "Requests to the API server except watches, by HTTP status, or `none` without an answer in time.",
    "code",
)
API_LISTS: Final = _define_operator_metric("counter", "api_lists", "List requests, by kind.", "kind")
API_WATCHES: Final = _define_operator_metric("counter", "api_watches", "Watch requests, by kind.", "kind")

REVIEWS: Final = _define_webhook_metric("counter", "requests", "Requests, by HTTP status.", "code")
LATENCY: Final = _define_webhook_metric(
    "histogram",
    "request_duration_seconds",
    "Duration of requests, from headers to answer.",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
PODS: Final = _define_webhook_metric(
    "counter",
    "pods",
    "Pods, by result: patched, untouched, withheld (no selector permits credentials in the namespace), too_large (too many"
    " containers, variables, mounts, volumes or bytes), unknown (the settings were not known yet).",
    "result",
)
CONNECTIONS_DROPPED: Final = _define_webhook_metric(
    "counter", "connections_dropped", "Connections closed because the server had too many."
)
SETTINGS_KNOWN: Final = _define_webhook_metric("gauge", "settings_known", "1 if the settings are known.")
SERVING_EXPIRY: Final = _define_webhook_metric(
    "gauge", "certificate_expiry_timestamp_seconds", "Expiry of the serving certificate."
)
