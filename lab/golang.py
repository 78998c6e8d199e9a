"""The Go toolchain, and where it keeps the sources of modules."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.process import TIED


class GoError(Exception):
    """Go is missing, or a module could not be fetched; the message says what it said."""


def program() -> str:
    """The path of `go`. Raises GoError."""
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if not found:
        raise GoError("go is not installed: run scripts/install")
    return found


def run(directory: Path, arguments: Sequence[str | Path], **environment: str) -> None:
    """Run `go` with these arguments after everything else on the machine. Raises GoError with the end of what it said.

    It ends with this process: a build that nobody waits for writes nothing.
    """
    command = [*TIED, "nice", "-n", "19", program(), *arguments]
    done = subprocess.run(command, cwd=directory, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GoError(f"go {arguments[0]} {arguments[-1]} failed:\n{(done.stderr or done.stdout)[-2000:]}")


def module_source(directory: Path, module: str) -> Path:
    """The source of a module that `directory`/go.mod requires; fetched where it is missing. Raises GoError."""
    command = [program(), "mod", "download", "-json", module]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise GoError(f"go mod download {module} failed:\n{(done.stderr or done.stdout)[-2000:]}")
    return Path(json.loads(done.stdout)["Dir"])
