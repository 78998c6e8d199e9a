"""The pages `docs/metrics.md` and `docs/runbooks/*.md`."""

from collections.abc import Iterator, Mapping
from typing import get_args

from transom.monitoring.alert import ALERTS, Alert
from transom.monitoring.metric_definitions import METRICS, Process
from transom.monitoring.objective import OBJECTIVES

_WRITTEN = "<!-- written by scripts/reference from src/transom/monitoring -->"


_HEAD = """\
This page lists Transom's metrics, service level objectives and alerts. [Health and metrics](operator.md#health-and-metrics)
explains how to scrape them.

With the Prometheus operator, set the [values](install.md#helm-kustomize-and-values-files)
`metrics.serviceMonitor` to create ServiceMonitors, and `metrics.alerts` to create a PrometheusRule. If your Prometheus
selects them by label, as kube-prometheus-stack does, set `metrics.labels`. Grafana 10.1 or newer can import
[the dashboard](dashboards/transom.json); `metrics.dashboard` creates a ConfigMap with it for Grafana's sidecar.

`metrics.runbookUrl` adds `runbook_url` to the alerts: the address at which you host the runbooks of this documentation.

The number of series depends on the CAs of the bundle and on the watched kinds. It does not grow with hosts, pods or clusters.
"""


def render_pages() -> Mapping[str, str]:
    """Render each page, by its path below `docs`."""
    return {
        "metrics.md": "\n".join(_iter_metric_lines()),
        **{f"runbooks/{alert.page}": "\n".join(_iter_runbook_lines(alert)) for alert in ALERTS},
    }


def _iter_metric_lines() -> Iterator[str]:
    yield f"# Metrics, objectives and alerts\n\n{_WRITTEN}\n"
    yield _HEAD
    for process in get_args(Process):
        yield f"## Metrics of `{process}`\n"
        yield "| metric | type | description |\n|---|---|---|"
        for metric in METRICS:
            if metric.process == process:
                labels = f"{{{','.join(metric.labels)}}}" if metric.labels else ""
                yield f"| `{metric.exposed}{labels}` | {metric.kind} | {metric.help} |"
        yield ""
    yield "## Objectives\n"
    yield "Each objective is a share of good events over 30 days. For another time range, replace `30d` in the expression.\n"
    yield "| objective | description | target | indicator |\n|---|---|---|---|"
    for objective in OBJECTIVES:
        expression = objective.build_query("30d").replace("|", "\\|")
        yield f"| {objective.name} | {objective.meaning} | {objective.target * 100:g} % | `{expression}` |"
    yield "\n## Alerts\n"
    yield "| alert | severity | after | description |\n|---|---|---|---|"
    for alert in ALERTS:
        summary = alert.summary.replace("{{ $labels.", "").replace("{{ $value", "N").replace(" }}", "")
        yield f"| [{alert.name}](runbooks/{alert.page}) | {alert.severity} | {alert.minutes} min | {summary} |"
    yield ""


def _iter_runbook_lines(alert: Alert) -> Iterator[str]:
    yield f"# {alert.name}\n\n{_WRITTEN}\n"
    yield f"{alert.impact}\n"
    yield f"The alert ({alert.severity}) fires after this expression was true for {alert.minutes} minutes:\n"
    yield f"```promql\n{alert.build_rule()['expr']}\n```\n"
    yield "## Check\n\n<!-- run by: tests/monitoring/test_faults.py::looked -->\n```"
    yield from alert.look
    yield "```\n\n## Fix\n"
    yield from (f"- {item}" for item in alert.fix)
    yield "\nThe alert ends automatically when the expression becomes false. [All alerts](../metrics.md#alerts).\n"
