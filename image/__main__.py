"""``python -m image OUT``: the operator's image as an OCI layout; ``python -m image --lock``: the locks of Debian's part."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from image import bill, build, debian, python
from image.progress import run_step
from transom import __version__
from transom.oci.image_layout import LayoutError


def main() -> None:
    """Make it, or the locks; exits 1 with what is wrong."""
    arguments = argparse.ArgumentParser(
        prog="scripts/image", description="The operator's image, made without a container engine."
    )
    arguments.add_argument("output", nargs="?", type=Path, help="the directory for the OCI layout; it may not be there")
    arguments.add_argument(
        "--platform",
        default=python.get_native_architecture(),
        help="amd64, arm64, or both with a comma [default: this machine's]",
    )
    arguments.add_argument(
        "--root", action="store_true", help="write the files of the image instead: what Containerfile copies"
    )
    arguments.add_argument(
        "--sbom", metavar="ARCHITECTURE", help="print the bill of materials of this image in the layout, and make nothing"
    )
    arguments.add_argument("--lock", action="store_true", help="write image/debian-*.lock anew: what Debian has today")
    chosen = arguments.parse_args()
    try:
        if chosen.lock:
            write_locks()
        elif chosen.output is None:
            arguments.error("name the directory for the OCI layout")
        elif chosen.sbom is not None:
            sys.stdout.buffer.write(bill.read_bill(chosen.output, chosen.sbom))
        else:
            write_image(chosen.output, chosen.platform.split(","), root=chosen.root)
    except (debian.DebianError, python.PythonError, bill.BillMissing, LayoutError, OSError) as error:
        sys.exit(f"scripts/image: {error}")


def write_locks() -> None:
    """Write the Debian locks from what apt resolves today."""
    made = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    for architecture in python.TRIPLETS:
        with run_step(f"asking apt for {architecture}"):
            debian.write_lock(architecture, debian.resolve(architecture, made))


def write_image(output: Path, architectures: list[str], *, root: bool) -> None:
    """Write the OCI layout and print its reference, or write the root file system with `root`."""
    if output.exists():
        sys.exit(f"scripts/image: {output} is there already")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "transom-image"
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="transom-image-") as directory:
        here = Path(directory)
        bases = [
            build.build_base(architecture, here / f"base-{architecture}", cache, run_step) for architecture in architectures
        ]
        if root:
            build.merge(bases[0], build.build_own_files(bases[0], here / "root", read_epoch()), output)
            return
        digest = build.write(bases, here / "layout", output, read_epoch())
    print(f"{output}:{__version__}@{digest}")


def read_epoch() -> int:
    """Return SOURCE_DATE_EPOCH, or the time of the last commit."""
    if override := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(override)
    result = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=python.PROJECT, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        sys.exit("scripts/image: there is no git history to take the time from: set SOURCE_DATE_EPOCH")
    return int(result.stdout)


if __name__ == "__main__":
    main()
