"""The metrics of every process: its version, and its CPU time, memory and files."""

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector

from transom import __version__
from transom.common.revision import read_revision
from transom.monitoring.metric_definitions import BUILD_INFO


def add_process_metrics(registry: CollectorRegistry) -> None:
    """Add `transom_build_info` and `process_*` to a registry."""
    info = Gauge(BUILD_INFO.name, BUILD_INFO.help, BUILD_INFO.labels, registry=registry)
    info.labels(__version__, read_revision() or "unknown").set(1)
    ProcessCollector(registry=registry)
