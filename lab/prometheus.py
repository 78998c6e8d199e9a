"""Debian's Prometheus: the server and promtool, of one version, by hash."""

from __future__ import annotations

from pathlib import Path

from image import debian

from lab import cache

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
