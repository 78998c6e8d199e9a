"""Debian's Prometheus, of one version, by hash: promtool, and a server."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from image import debian

from lab import cache
from lab.ports import reserve
from lab.process import Process

_MADE = "20261123T054636Z"
_PACKAGE = debian.Package(
    "debian",
    "pool/main/p/prometheus/prometheus_2.42.0%2bds-5%2bdeb12u1_amd64.deb",
    "81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55",
)
"""As `apt-get download --print-uris prometheus` names it; snapshot.debian.org has it at that time."""


def fetch_programs() -> Path:
    """Return the directory of `prometheus` and `promtool`, which need only the C library. Raises DebianError."""

    def make(root: Path) -> None:
        debian.unpack(debian.Lock(_MADE, (_PACKAGE,)), root, cache.get_directory() / "debian")

    return cache.get_entry("prometheus", cache.digest([_PACKAGE.sha256]), make) / "usr" / "bin"


class Prometheus:
    """A server that scrapes loopback ports each second, and judges rules as often."""

    def __init__(self, directory: Path, rules: Mapping[str, Any], ports: Mapping[str, int]) -> None:
        """Begin. `ports` are scraped at `/metrics`, by the job that each is."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "rules.json").write_text(json.dumps(rules))
        jobs = [{"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]} for job, port in ports.items()]
        seconds = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        whole = {"global": seconds, "rule_files": ["rules.json"], "scrape_configs": jobs}
        (directory / "prometheus.json").write_text(json.dumps(whole))
        port = reserve()
        self.url = f"http://127.0.0.1:{port}"
        self._process = Process(
            (
                fetch_programs() / "prometheus",
                f"--config.file={directory / 'prometheus.json'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ),
            directory / "prometheus.log",
            # two of them work beside others on two cores
            env={"GOMAXPROCS": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.stop()

    def query_api(self, path: str, **query: str) -> Any:
        """Query its API (https://prometheus.io/docs/prometheus/2.42/querying/api/). Raises OSError until it listens."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
            return json.load(answer)["data"]

    def list_firing_alerts(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        return {alert["labels"]["alertname"] for alert in self.query_api("alerts")["alerts"] if alert["state"] == "firing"}

    def query_values(self, expression: str) -> list[float]:
        """Return the current value of an expression for each series."""
        return [float(item["value"][1]) for item in self.query_api("query", query=expression)["result"]]
