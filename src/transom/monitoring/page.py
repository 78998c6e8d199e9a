"""The pages `docs/metrics.md` and `docs/runbooks/*.md`."""

import re
from collections.abc import Iterator, Mapping

from transom.monitoring.alert import ALERTS, Alert
from transom.monitoring.metric_definitions import METRICS, Metric, Process
from transom.monitoring.objective import OBJECTIVES

_WRITTEN = "<!-- written by scripts/reference from src/transom/monitoring -->"

_HEAD = """\
This page lists Transom's metrics, service level objectives and alerts. To scrape the metrics, see [Health and
metrics](operator.md#health-and-metrics). [Common values](install.md#common-values) create ServiceMonitors, alerts and the
[dashboard](dashboards/transom.json) for Grafana 10.1 or newer.

The number of series does not grow with hosts, pods or clusters.
"""


def render_pages() -> Mapping[str, str]:
    """Render each page, by its path below `docs`."""
    return {
        "metrics.md": "\n".join(_iter_metric_lines()),
        **{f"runbooks/{alert.runbook_file}": "\n".join(_iter_runbook_lines(alert)) for alert in ALERTS},
    }


def _iter_metric_lines() -> Iterator[str]:
    yield f"# Metrics, objectives and alerts\n\n{_WRITTEN}\n"
    yield _HEAD
    processes_by_row: dict[str, tuple[Process, ...]] = {}
    for metric in METRICS:
        row = _render_row(metric)
        processes_by_row[row] = (*processes_by_row.get(row, ()), metric.process)
    for processes in dict.fromkeys(processes_by_row.values()):
        yield f"## Metrics of {' and '.join(f'`{process}`' for process in processes)}\n"
        yield "| metric | type | description |\n|---|---|---|"
        yield from (row for row in processes_by_row if processes_by_row[row] == processes)
        yield ""
    yield "## Objectives\n"
    yield "Each objective is a share of good events over 30 days. For another range, replace `30d` in the query.\n"
    yield "| objective | description | target | indicator |\n|---|---|---|---|"
    for objective in OBJECTIVES:
        expression = objective.build_query("30d").replace("|", "\\|")
        yield f"| {objective.name} | {objective.meaning} | {objective.target * 100:g} % | `{expression}` |"
    yield "\n## Alerts\n"
    yield "| alert | severity | after | description |\n|---|---|---|---|"
    for alert in ALERTS:
        summary = _format_summary(alert.summary)
        yield f"| [{alert.name}](runbooks/{alert.runbook_file}) | {alert.severity} | {alert.minutes} min | {summary} |"
    yield ""


def _format_summary(summary: str) -> str:
    """Return the summary without templates: `controller {{ $labels.controller }}` is `a controller`."""
    named = re.sub(r"\b(\w+) \{\{ \$labels\.\1 \}\}", r"a \1", summary)
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", r"the \1", named).replace("{{ $value", "N").replace(" }}", "")


def _render_row(metric: Metric) -> str:
    labels = f"{{{','.join(metric.labels)}}}" if metric.labels else ""
    return f"| `{metric.exposed_name}{labels}` | {metric.kind} | {metric.help} |"


def _iter_runbook_lines(alert: Alert) -> Iterator[str]:
    yield f"# {alert.name}\n\n{_WRITTEN}\n"
    yield f"{alert.impact}\n"
    minutes = f"{alert.minutes} minute{'' if alert.minutes == 1 else 's'}"
    yield f"The alert ({alert.severity}) fires after this expression has been true for {minutes}:\n"
    yield f"```promql\n{alert.build_rule()['expr']}\n```\n"
    yield "## Check\n\n<!-- run by: tests/monitoring/test_faults.py::looked -->\n```"
    yield from alert.look
    yield "```\n\n## Fix\n"
    yield from (f"- {item}" for item in alert.fix)
    yield "\n[All alerts](../metrics.md#alerts).\n"
