"""The layers of the image, and the layout of them: Debian's packages, the wheels, and Transom."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from image import bill, debian, python, root
from transom import __version__
from transom.image_layout import Image, ImageLayer, Layout

Step = Callable[[str], Any]
"""Begins a block in which something is done."""


class Base(msgspec.Struct, frozen=True):
    """What is below Transom's own layer, for one architecture: its layers, and the directory that has them and their files."""

    architecture: str
    layers: tuple[ImageLayer, ...]
    directory: Path

    @property
    def roots(self) -> tuple[Path, ...]:
        """The files of each layer."""
        return self.directory / "debian", self.directory / "wheels"

    @property
    def runs(self) -> Path:
        """A root whose Python this machine can run."""
        return self.roots[0] if self.architecture == python.native() else self.directory / "compiler"


def base(architecture: str, directory: Path, cache: Path, step: Step = nullcontext) -> Base:
    """Make it below a directory; `cache` keeps what was fetched. Its bytes follow from the two locks alone."""
    lock = debian.read_lock(architecture)
    epoch = int(datetime.strptime(lock.made, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp())
    layout = Layout(directory / "layout", epoch)
    made = Base(architecture, (), directory)
    first, second = made.roots
    with step(f"unpacking {len(lock.packages)} packages of Debian, {architecture}"):
        debian.unpack(lock, first, cache)
        root.complete(first)
        if made.runs != first:
            debian.unpack(debian.read_lock(python.native()), made.runs, cache)
    with step(f"installing wheels, {architecture}"):
        python.install(python.requirements(), architecture, second)
    with step(f"compiling, {architecture}"):
        python.compile_all(made.runs, first, python.STANDARD_LIBRARY)
        python.compile_all(made.runs, second, python.PACKAGES)
    with step(f"packing, {architecture}"):
        return msgspec.structs.replace(made, layers=(layout.layer(first), layout.layer(second)))


def write(bases: Sequence[Base], directory: Path, output: Path, epoch: int) -> str:
    """Write the layout of the image for each base, by way of a directory. Gives its digest, `sha256:…`."""
    target = Layout(output, epoch)
    wheel = python.build(directory / "wheel", epoch)
    images = [_image(one, wheel, target, directory / one.architecture, epoch) for one in bases]
    annotations = {"org.opencontainers.image.version": __version__, "org.opencontainers.image.licenses": "Apache-2.0"}
    return target.write(images, __version__, annotations)


def own(found: Base, directory: Path, epoch: int) -> Path:
    """Make the files of Transom's own layer by way of a directory; where they are."""
    tree = directory / found.architecture
    _tree(found, python.build(directory / "wheel", epoch), tree, epoch)
    return tree


def merge(found: Base, tree: Path, output: Path) -> None:
    """Write the files of all layers; `tree` has those of Transom's own."""
    for one in (*found.roots, tree):
        shutil.copytree(one, output, symlinks=True, dirs_exist_ok=True)


def _image(found: Base, wheel: Path, target: Layout, tree: Path, epoch: int) -> Image:
    _tree(found, wheel, tree, epoch)
    for layer in found.layers:
        target.take(layer, found.directory / "layout")
    labels = {"org.opencontainers.image.title": "transom", "org.opencontainers.image.version": __version__}
    return Image((*found.layers, target.layer(tree)), found.architecture, {**root.CONFIG, "Labels": labels})


def _tree(found: Base, wheel: Path, tree: Path, epoch: int) -> None:
    """The files of Transom's own layer."""
    python.unpack(wheel, tree)
    root.launch(tree)
    python.compile_all(found.runs, tree, python.PACKAGES)
    bill.write(tree, (*found.roots, tree), found.architecture, __version__, epoch)
