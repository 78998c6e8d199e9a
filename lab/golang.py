"""The Go toolchain, and where it keeps the sources of modules."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path


class GoError(Exception):
    """Go is missing, or a module could not be fetched; the message says what it said."""


def program() -> str:
    """The path of `go`. Raises GoError."""
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if not found:
        raise GoError("go is not installed: run scripts/install")
    return found


def module_source(directory: Path, module: str) -> Path:
    """The source of a module that `directory`/go.mod requires; fetched where it is missing. Raises GoError."""
    command = [program(), "mod", "download", "-json", module]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GoError(f"go mod download {module} failed:\n{(done.stderr or done.stdout)[-2000:]}")
    return Path(json.loads(done.stdout)["Dir"])
