"""What the Operator Lifecycle Manager publishes as Go modules: its definitions, and what judges a bundle and a catalog."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Any, Literal

import yaml

from lab import build
from lab.golang import module_source

MODULE = Path(__file__).parent / "go" / "olm"
_API = "github.com/operator-framework/api"


@functools.cache
def definition(plural: str) -> dict[str, Any]:
    """The CustomResourceDefinition of one of OLM's kinds, as its published Go module has it."""
    file = module_source(MODULE, _API) / "crds" / f"operators.coreos.com_{plural}.yaml"
    found: dict[str, Any] = yaml.load(file.read_text(), yaml.CSafeLoader)
    return found


def problems(kind: Literal["bundle", "catalog"], directory: Path) -> list[str]:
    """What the validators of operator-framework say of a bundle's directory, or of a file-based catalog's."""
    command = [build.program(build.OLM), kind, directory]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or (done.returncode == 1) != bool(done.stdout):
        raise build.BuildError(f"olm {kind}: {done.stderr[-2000:]}")
    return done.stdout.splitlines()
