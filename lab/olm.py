"""What the Operator Lifecycle Manager publishes as Go modules: its definitions, and what judges a bundle and a catalog."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any, Literal

import yaml

from lab import build
from lab.golang import fetch_module_source

MODULE = Path(__file__).parent / "go" / "olm"
_API = "github.com/operator-framework/api"


@functools.cache
def read_definition(plural: str) -> dict[str, Any]:
    """Return the CustomResourceDefinition of one of OLM's kinds, from its published Go module."""
    file = fetch_module_source(MODULE, _API) / "crds" / f"operators.coreos.com_{plural}.yaml"
    value: dict[str, Any] = yaml.load(file.read_text(), yaml.CSafeLoader)
    return value


def validate(kind: Literal["bundle", "catalog"], directory: Path) -> list[str]:
    """Validate a bundle's directory or a file-based catalog with operator-framework, and return the problems."""
    command = [build.build_program(build.OLM), kind, directory]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or (done.returncode == 1) != bool(done.stdout):
        raise build.BuildError(f"olm {kind}: {done.stderr[-2000:]}")
    return done.stdout.splitlines()
