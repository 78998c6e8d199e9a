"""Releases of Transom as people have them: the wheel of an earlier commit, and that of this tree under a later version."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
from image.progress import run_step

from lab import cache

PROJECT = Path(__file__).parents[1]
LATER = "99.0.0"
"""The version of this tree's wheel: later than every release, so that an upgrade is one of the version, too."""
_ROWS = Path(__file__).with_suffix(".yaml")
_SOURCES = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "docs/transom.1", "src")
"""What a wheel is built from."""


class ReleaseError(Exception):
    """A release could not be built; the message says what is missing, or what the program said."""


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of releases.yaml."""

    version: str
    commit: str
    narrowed: dict[str, str] = {}


@dataclass(frozen=True)
class Wheel:
    """Transom from a wheel: `command` starts it, in an environment that has these variables."""

    version: str
    command: tuple[str, ...]
    environment: Mapping[str, str]

    def run(self, *arguments: str) -> str:
        """`transom ARGUMENTS` to its end; its output. Raises ReleaseError."""
        return _run(*self.command, *arguments, **self.environment)


def read_latest() -> Release:
    """Return the latest release."""
    return msgspec.yaml.decode(_ROWS.read_bytes(), type=list[Release])[-1]


def build_latest() -> Wheel:
    """Build the latest release in a virtual environment of its own. Raises ReleaseError."""
    release = read_latest()

    def make(target: Path) -> None:
        with run_step(f"building release {release.version}"):
            tree = target / "tree"
            _unpack(release, tree)
            wheel = _build(tree, target)
            _run("uv", "venv", "--quiet", "--python", sys.executable, str(target / "venv"))
            install = ("uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", str(target / "venv/bin/python"))
            _run(*install, "--require-hashes", "-r", str(tree / "requirements.txt"))
            _run(*install, "--no-deps", str(wheel))
            shutil.rmtree(tree)

    python = cache.get_entry("release", cache.digest([release.version, release.commit]), make) / "venv/bin/python"
    return Wheel(release.version, (str(python), "-m", "transom"), {})


def build_current() -> Wheel:
    """Build this tree's wheel as version `LATER`, with the dependencies of the running Python. Raises ReleaseError."""
    files = [file for name in _SOURCES for file in _list_files(PROJECT / name)]

    def make(target: Path) -> None:
        with run_step("building this tree's wheel"):
            tree = target / "tree"
            for file in files:
                copy = tree / file.relative_to(PROJECT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
            package = tree / "src/transom/__init__.py"
            package.write_text(re.sub(r'(?m)^__version__ = ".*"$', f'__version__ = "{LATER}"', package.read_text(), count=1))
            with zipfile.ZipFile(_build(tree, target)) as packed:
                packed.extractall(target / "packages")
            shutil.rmtree(tree)

    packages = cache.get_entry("release-next", cache.digest([LATER, *files]), make) / "packages"
    return Wheel(LATER, (sys.executable, "-m", "transom"), {"PYTHONPATH": str(packages)})


def _list_files(path: Path) -> list[Path]:
    paths = [path] if path.is_file() else sorted(path.rglob("*"))
    return [item for item in paths if item.is_file() and "__pycache__" not in item.parts]


def _unpack(release: Release, tree: Path) -> None:
    """Unpack the files of a release's commit."""
    packed = subprocess.run(["git", "archive", "--format=tar", release.commit], cwd=PROJECT, capture_output=True, check=False)
    if packed.returncode != 0:
        raise ReleaseError(
            f"commit {release.commit}, of which release {release.version} was made, is not in this clone:"
            f" `git fetch --unshallow`, or `git fetch origin {release.commit}`, brings it"
            f" (git says: {packed.stderr.decode().strip()})"
        )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(tree)


def _build(tree: Path, directory: Path) -> Path:
    _run("uv", "build", "--quiet", "--wheel", "--out-dir", str(directory), str(tree))
    return next(directory.glob("transom-*.whl"))


def _run(*command: str, **more: str) -> str:
    ours = ("PYTHON", "VIRTUAL_ENV", "TRANSOM_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | more
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command[:4])} failed: {done.stderr[-2000:]}")
    return done.stdout
