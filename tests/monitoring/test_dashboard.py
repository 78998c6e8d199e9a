"""The dashboard is what its script prints, and asks for metrics that there are."""

import re
import subprocess
import sys

from tests.monitoring.dashboard import FILE, queries
from tests.support.repository import ROOT

from transom.monitoring.metric_definitions import METRICS


def test_it_is_what_its_script_prints() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "dashboard"], capture_output=True, text=True, check=True)
    assert done.stdout == FILE.read_text("utf-8"), "run scripts/reference"


def test_it_shows_every_metric_and_no_other() -> None:
    asked = {name for query in queries() for name in re.findall(r"\b(?:transom|process)_[a-z_]+", query)}
    suffixes = {"histogram": ("_bucket", "_count"), "counter": ("",), "gauge": ("",)}
    there = {f"{metric.exposed_name}{suffix}" for metric in METRICS for suffix in suffixes[metric.kind]}
    assert asked - there == set()
    assert {metric.name for metric in METRICS if not any(metric.name in each for each in asked)} == set()
