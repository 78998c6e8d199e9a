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
from transom.oci.image_layout import Image, ImageLayer, Layout

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
        return self.roots[0] if self.architecture == python.get_native_architecture() else self.directory / "compiler"


def build_base(architecture: str, directory: Path, cache: Path, step: Step = nullcontext) -> Base:
    """Build the base layers below a directory; `cache` keeps downloads.

    The bytes depend only on the two locks.
    """
    lock = debian.read_lock(architecture)
    epoch = int(datetime.strptime(lock.made, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp())
    layout = Layout(directory / "layout", epoch)
    made = Base(architecture, (), directory)
    first, second = made.roots
    with step(f"unpacking {len(lock.packages)} packages of Debian, {architecture}"):
        debian.unpack(lock, first, cache)
        root.complete(first)
        if made.runs != first:
            debian.unpack(debian.read_lock(python.get_native_architecture()), made.runs, cache)
    with step(f"installing wheels, {architecture}"):
        python.install(python.export_requirements(), architecture, second)
    with step(f"compiling, {architecture}"):
        python.compile_all(made.runs, first, python.STANDARD_LIBRARY)
        python.compile_all(made.runs, second, python.PACKAGES)
    with step(f"packing, {architecture}"):
        return msgspec.structs.replace(made, layers=(layout.write_layer(first), layout.write_layer(second)))


def write(bases: Sequence[Base], directory: Path, output: Path, epoch: int) -> str:
    """Write the layout of the image for each base, by way of a directory. Gives its digest, `sha256:…`."""
    target = Layout(output, epoch)
    wheel = python.build(directory / "wheel", epoch)
    images = [_build_image(item, wheel, target, directory / item.architecture, epoch) for item in bases]
    annotations = {"org.opencontainers.image.version": __version__, "org.opencontainers.image.licenses": "Apache-2.0"}
    return target.write(images, __version__, annotations)


def build_own_files(base_image: Base, directory: Path, epoch: int) -> Path:
    """Build the files of Transom's own layer below a directory and return their path."""
    tree = directory / base_image.architecture
    _write_tree(base_image, python.build(directory / "wheel", epoch), tree, epoch)
    return tree


def merge(base_image: Base, tree: Path, output: Path) -> None:
    """Write the files of all layers; `tree` has those of Transom's own."""
    for item in (*base_image.roots, tree):
        shutil.copytree(item, output, symlinks=True, dirs_exist_ok=True)


def _build_image(base_image: Base, wheel: Path, target: Layout, tree: Path, epoch: int) -> Image:
    _write_tree(base_image, wheel, tree, epoch)
    for layer in base_image.layers:
        target.link_layer(layer, base_image.directory / "layout")
    labels = {"org.opencontainers.image.title": "transom", "org.opencontainers.image.version": __version__}
    return Image((*base_image.layers, target.write_layer(tree)), base_image.architecture, {**root.CONFIG, "Labels": labels})


def _write_tree(base_image: Base, wheel: Path, tree: Path, epoch: int) -> None:
    """Write the files of Transom's own layer."""
    python.unpack(wheel, tree)
    root.launch(tree)
    python.compile_all(base_image.runs, tree, python.PACKAGES)
    bill.write(tree, (*base_image.roots, tree), base_image.architecture, __version__, epoch)
