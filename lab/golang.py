"""The Go toolchain, and where it keeps the sources of modules."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lab import cache
from lab.process import TIED

ATTEMPTS: Final = 4
WAIT_SECONDS: Final = 5.0
"""Before the second attempt; as much longer before each further one."""
_NETWORK: Final = re.compile(
    r"dial tcp|i/o timeout|TLS handshake timeout|connection re(?:set|fused)|unexpected EOF|no such host|(?:500|502|503|504) \w"
)
"""How `go` says that a module could not be fetched for a reason that may pass."""


class GoError(Exception):
    """Go is missing, or a module could not be fetched; the message says what it said."""


def find_program() -> str:
    """Return the path of `go`, preferably that of scripts/install, as others can be too old. Raises GoError."""
    places = (str(cache.get_directory() / "tools" / "bin"), os.environ.get("PATH", os.defpath), "/usr/local/go/bin")
    path = shutil.which("go", path=os.pathsep.join(places))
    if not path:
        raise GoError("go is not installed: run scripts/install")
    return path


def run(directory: Path, arguments: Sequence[str | Path], **environment: str) -> None:
    """Run `go` at low priority. Raises GoError with the end of its output.

    It ends with this process, so an abandoned build writes nothing.
    """
    _run_with_retries([*TIED, "nice", "-n", "19", find_program(), *arguments], directory, os.environ | environment)


def fetch_module_source(directory: Path, module: str) -> Path:
    """Return the source of a module that `directory`/go.mod requires; fetch it if it is missing. Raises GoError."""
    output = _run_with_retries([find_program(), "mod", "download", "-json", module], directory, os.environ)
    return Path(json.loads(output)["Dir"])


def _run_with_retries(command: Sequence[str | Path], directory: Path, environment: Mapping[str, str]) -> str:
    """Return what `go` printed; a failure of the network is tried again, since `go` itself does not."""
    for attempt in range(1, ATTEMPTS + 1):
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout
        message = (done.stderr or done.stdout)[-2000:]
        if attempt == ATTEMPTS or not _NETWORK.search(message):
            break
        print(f"go: attempt {attempt} of {ATTEMPTS} failed: {message.strip().splitlines()[-1]}", file=sys.stderr)
        time.sleep(WAIT_SECONDS * attempt)
    words = command[command.index(find_program()) + 1 :]
    raise GoError(f"go {words[0]} {words[-1]} failed:\n{message}")
