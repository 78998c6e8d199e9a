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


def programs() -> Path:
    """The directory of `prometheus` and `promtool`, which need the C library alone. Raises DebianError."""

    def make(root: Path) -> None:
        debian.unpack(debian.Lock(_MADE, (_PACKAGE,)), root, cache.directory() / "debian")

    return cache.entry("prometheus", cache.digest([_PACKAGE.sha256]), make) / "usr" / "bin"


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
                programs() / "prometheus",
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

    def ask(self, path: str, **query: str) -> Any:
        """What its API says (https://prometheus.io/docs/prometheus/2.42/querying/api/). Raises OSError while none listens."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
            return json.load(answer)["data"]

    def firing(self) -> set[str]:
        """The alerts that fire now."""
        return {one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"}

    def values(self, expression: str) -> list[float]:
        """What an expression is now, by series."""
        return [float(one["value"][1]) for one in self.ask("query", query=expression)["result"]]
