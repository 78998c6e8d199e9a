"""Flux's HelmRelease on the lab's API server: its definition, generated from its published Go types as Flux does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from image.progress import step

from lab import cache, golang

MODULE = Path(__file__).parent / "go" / "flux"
TYPES = "github.com/fluxcd/helm-controller/api/v2"


def definitions() -> list[dict[str, Any]]:
    """The CustomResourceDefinition of helm.toolkit.fluxcd.io/v2; generated once (a minute), then from the cache."""
    made = cache.entry("flux", cache.digest([MODULE, TYPES]), _generate)
    return [yaml.load(file.read_text(), yaml.CSafeLoader) for file in sorted(made.glob("*.yaml"))]


def _generate(target: Path) -> None:
    command = ["tool", "controller-gen", "crd", f"paths={TYPES}", f"output:crd:dir={target}"]
    with step("generating the definition of Flux's HelmRelease"):
        golang.run(MODULE, command, GOFLAGS="-mod=readonly")
