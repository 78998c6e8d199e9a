"""Python's packages of the image: the wheels of `uv.lock` for an architecture, and Transom's own; all compiled."""

from __future__ import annotations

import os
import platform
import subprocess
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PACKAGES = "usr/local/lib/python3.11/dist-packages"
"""Where Debian's Python looks for what its administrator installs (site.py of python3.11)."""
STANDARD_LIBRARY = "usr/lib/python3.11"
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
"""What Debian calls the directories of an architecture's libraries."""
_LOADERS = {"amd64": "lib64/ld-linux-x86-64.so.2", "arm64": "lib/ld-linux-aarch64.so.1"}
_GLIBC = "2_36"
"""Bookworm's."""


class PythonError(Exception):
    """A program failed; the message has the end of what it said."""


def get_native_architecture() -> str:
    """Return the architecture of this machine, as Debian and Go name it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def export_requirements() -> str:
    """Return the dependencies of Transom with their hashes, from `uv.lock`."""
    return _run("uv", "export", "--locked", "--quiet", "--no-dev", "--no-emit-project", "--no-header", "--no-annotate")


def install(wanted: str, architecture: str, tree: Path) -> None:
    """Put the wheels below a tree. Raises PythonError where one is missing for the architecture."""
    target = tree / PACKAGES
    target.mkdir(parents=True)
    listed = tree.with_name(f"{tree.name}.txt")
    listed.write_text(wanted)
    machine = TRIPLETS[architecture].partition("-")[0]
    wheels = ("--python-platform", f"{machine}-manylinux_{_GLIBC}", "--python-version", "3.11", "--only-binary", ":all:")
    options = ("--no-deps", "--no-compile-bytecode", "--link-mode", "copy", "--no-config")
    _run("uv", "pip", "install", "--quiet", "--target", str(target), "--require-hashes", *wheels, *options, "-r", str(listed))
    for path in [*target.glob("bin/*"), *target.glob("*.dist-info/REQUESTED"), target / ".lock"]:
        path.unlink(missing_ok=True)
    if (target / "bin").exists():
        (target / "bin").rmdir()
    # of programs it has the hash, in which the path of this machine's Python is
    for record in target.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith(("bin/", "../"))))


def build(directory: Path, epoch: int) -> Path:
    """Transom's own wheel, made in a directory."""
    _run("uv", "build", "--quiet", "--wheel", "--out-dir", str(directory), str(PROJECT), SOURCE_DATE_EPOCH=str(epoch))
    return next(directory.glob("transom-*.whl"))


def unpack(wheel: Path, tree: Path) -> None:
    """Put Transom's wheel below a tree."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tree / PACKAGES)


def compile_all(root: Path, tree: Path, inner: str) -> None:
    """Compile what is at `inner` of a tree, by the Python of a root of this machine's architecture.

    In a root that cannot be written nothing compiled could be kept. It is not held against the time of its source, which
    the image sets anew (PEP 552, unchecked hash).
    """
    here = get_native_architecture()
    libraries = ":".join(str(root / directory / TRIPLETS[here]) for directory in ("lib", "usr/lib"))
    python = (str(root / _LOADERS[here]), "--library-path", libraries, str(root / "usr/bin/python3.11"), "-S", "-s")
    job = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(tree), "-p", "/", str(tree / inner))
    _run(*python, *job, PYTHONHOME=str(root / "usr"), PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1")


def _run(*command: str, **more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=PROJECT, env=environment | more, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise PythonError(f"{' '.join(command[:3])} failed: {done.stderr[-2000:]}")
    return done.stdout
