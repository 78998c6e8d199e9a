"""`docs/metrics.md` and the runbooks below `docs/runbooks`, for people."""

from collections.abc import Iterator, Mapping
from typing import get_args

from transom.monitoring import METRICS, Process
from transom.monitoring.alert import ALERTS, Alert
from transom.monitoring.objective import OBJECTIVES

_WRITTEN = "<!-- written by scripts/reference from src/transom/monitoring -->"


_HEAD = """\
How they are scraped: [health and metrics](operator.md#health-and-metrics). Of the
[values](operator.md#by-helm-with-kustomize-or-from-a-file-of-values), `metrics.serviceMonitor` makes ServiceMonitors and
`metrics.alerts` a PrometheusRule, for the Prometheus operator. The number of series grows with the CAs of the bundle and the
kinds that are watched, not with hosts, pods or clusters. For Grafana, 10.1 or newer: [a dashboard](dashboards/transom.json).
"""


def pages() -> Mapping[str, str]:
    """Each page by its path below `docs`."""
    return {"metrics.md": "\n".join(_metrics()), **{f"runbooks/{one.page}": "\n".join(_runbook(one)) for one in ALERTS}}


def _metrics() -> Iterator[str]:
    yield f"# Metrics, objectives and alerts\n\n{_WRITTEN}\n"
    yield _HEAD
    for process in get_args(Process):
        yield f"## Of `{process}`\n"
        yield "| metric | kind | says |\n|---|---|---|"
        for one in METRICS:
            if one.process == process:
                labels = f"{{{','.join(one.labels)}}}" if one.labels else ""
                yield f"| `{one.exposed}{labels}` | {one.kind} | {one.help} |"
        yield ""
    yield "## Objectives\n"
    yield "Shares of what was good, to be met over 30 days; for another span write that in the place of `30d`.\n"
    yield "| objective | means | target | indicator |\n|---|---|---|---|"
    for objective in OBJECTIVES:
        expression = objective.over("30d").replace("|", "\\|")
        yield f"| {objective.name} | {objective.meaning} | {objective.target * 100:g} % | `{expression}` |"
    yield "\n## Alerts\n"
    yield "| alert | severity | after | says |\n|---|---|---|---|"
    for alert in ALERTS:
        said = alert.summary.replace("{{ $labels.", "").replace("{{ $value", "N").replace(" }}", "")
        yield f"| [{alert.name}](runbooks/{alert.page}) | {alert.severity} | {alert.minutes} min | {said} |"
    yield ""


def _runbook(alert: Alert) -> Iterator[str]:
    yield f"# {alert.name}\n\n{_WRITTEN}\n"
    yield f"{alert.impact}\n"
    yield f"It is told ({alert.severity}) once this was true for {alert.minutes} minutes:\n"
    yield f"```promql\n{alert.rule()['expr']}\n```\n"
    yield "## Look\n\n<!-- run by: tests/monitoring/test_faults.py::looked -->\n```"
    yield from alert.look
    yield "```\n\n## Mend\n"
    yield from (f"- {one}" for one in alert.mend)
    yield "\nIt ends by itself once the expression is no longer true. All alerts: [metrics](../metrics.md#alerts).\n"
