"""The queries of the dashboard that is kept."""

import json
from collections.abc import Iterator

from tests.support.repository import DOCS

FILE = DOCS / "dashboards" / "transom.json"
RATE, RANGE = "$__rate_interval", "$__range"
"""Grafana's own variables: https://grafana.com/docs/grafana/latest/datasources/prometheus/template-variables/."""


def queries() -> Iterator[str]:
    for panel in json.loads(FILE.read_text("utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
