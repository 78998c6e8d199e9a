"""Flux's HelmRelease on the lab's API server: its definition, generated from its published Go types as Flux does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from image.progress import run_step

from lab import cache, golang

MODULE = Path(__file__).parent / "go" / "flux"
TYPES = "github.com/fluxcd/helm-controller/api/v2"


def read_definitions() -> list[dict[str, Any]]:
    """Return the CustomResourceDefinition of helm.toolkit.fluxcd.io/v2; generate it once (a minute), then cache it."""
    made = cache.get_entry("flux", cache.digest([MODULE, TYPES]), _generate)
    return [yaml.load(file.read_text(), yaml.CSafeLoader) for file in sorted(made.glob("*.yaml"))]


def _generate(target: Path) -> None:
    command = ["tool", "controller-gen", "crd", f"paths={TYPES}", f"output:crd:dir={target}"]
    with run_step("generating the definition of Flux's HelmRelease"):
        golang.run(MODULE, command, GOFLAGS="-mod=readonly")
