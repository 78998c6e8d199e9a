"""``python -m image OUT``: the operator's image as an OCI layout; ``python -m image --lock``: the locks of Debian's part."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from image import build, debian, python
from image.progress import step
from transom import __version__


def main() -> None:
    """Make it, or the locks; exits 1 with what is wrong."""
    arguments = argparse.ArgumentParser(
        prog="scripts/image", description="The operator's image, made without a container engine."
    )
    arguments.add_argument("output", nargs="?", type=Path, help="the directory for the OCI layout; it may not be there")
    arguments.add_argument(
        "--platform", default=python.native(), help="amd64, arm64, or both with a comma [default: this machine's]"
    )
    arguments.add_argument(
        "--root", action="store_true", help="write the files of the image instead: what Containerfile copies"
    )
    arguments.add_argument("--lock", action="store_true", help="write image/debian-*.lock anew: what Debian has today")
    chosen = arguments.parse_args()
    try:
        if chosen.lock:
            lock()
        elif chosen.output is None:
            arguments.error("name the directory for the OCI layout")
        else:
            image(chosen.output, chosen.platform.split(","), root=chosen.root)
    except (debian.DebianError, python.PythonError, OSError) as error:
        sys.exit(f"scripts/image: {error}")


def lock() -> None:
    """Ask apt."""
    made = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    for architecture in python.TRIPLETS:
        with step(f"asking apt for {architecture}"):
            debian.write_lock(architecture, debian.resolve(architecture, made))


def image(output: Path, architectures: list[str], *, root: bool) -> None:
    """Make the layout and print what names it, or make the root."""
    if output.exists():
        sys.exit(f"scripts/image: {output} is there already")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "transom-image"
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="transom-image-") as directory:
        here = Path(directory)
        bases = [build.base(one, here / f"base-{one}", cache, step) for one in architectures]
        if root:
            build.merge(bases[0], build.own(bases[0], here / "root", epoch()), output)
            return
        digest = build.write(bases, here / "layout", output, epoch())
    print(f"{output}:{__version__}@{digest}")


def epoch() -> int:
    """SOURCE_DATE_EPOCH, else the time of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    told = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=python.PROJECT, capture_output=True, text=True, check=False)
    if told.returncode != 0:
        sys.exit("scripts/image: there is no git history to take the time from: set SOURCE_DATE_EPOCH")
    return int(told.stdout)


if __name__ == "__main__":
    main()
