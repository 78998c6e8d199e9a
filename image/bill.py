"""The bill of materials: what is in the image, as CycloneDX 1.6."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from image import debian
from image.python import PACKAGES
from transom.oci.image_layout import read_image

FILE = "usr/share/sbom/transom.cdx.json"


def write(tree: Path, roots: tuple[Path, ...], architecture: str, version: str, epoch: int) -> None:
    """Write it into a tree: Debian's packages and Python's of all `roots`. The same content gives the same bytes."""
    transom = Component(name="transom", version=version, type=ComponentType.CONTAINER, bom_ref="image")
    components = sorted((*_iter_debian_components(roots[0]), *_iter_python_components(roots)), key=lambda item: str(item.purl))
    bom = Bom(
        components=components,
        serial_number=uuid5(NAMESPACE_URL, " ".join((architecture, version, *(str(item.purl) for item in components)))),
        metadata=BomMetaData(component=transom, timestamp=datetime.fromtimestamp(epoch, UTC)),
    )
    bom.register_dependency(transom, components)
    target = tree / FILE
    target.parent.mkdir(parents=True)
    target.write_text(JsonV1Dot6(bom).output_as_string(indent=1) + "\n")


def _iter_debian_components(root: Path) -> Iterator[Component]:
    for package in debian.iter_descriptions(root):
        qualifiers = {"arch": package["Architecture"], "distro": debian.SUITE}
        url = PackageURL("deb", "debian", package["Package"], package["Version"], qualifiers)
        yield Component(name=package["Package"], version=package["Version"], purl=url, bom_ref=str(url))


def _iter_python_components(roots: tuple[Path, ...]) -> Iterator[Component]:
    for file in sorted(file for root in roots for file in (root / PACKAGES).glob("*.dist-info/METADATA")):
        metadata = HeaderParser().parsestr(file.read_text("utf-8"))
        name, version = str(metadata["Name"]), str(metadata["Version"])
        url = PackageURL("pypi", None, name.lower().replace("_", "-").replace(".", "-"), version)
        yield Component(name=name, version=version, purl=url, bom_ref=str(url))


class BillMissing(Exception):
    """An image has no bill of materials."""


def read_bill(layout: Path, architecture: str) -> bytes:
    """Return the bill of the image for an architecture in an OCI layout, as JSON. Raises BillMissing and LayoutError."""
    for layer in reversed(read_image(layout, architecture).layers):
        with tarfile.open(layout / "blobs" / "sha256" / layer.digest) as files:
            for member in files:
                if member.name.removeprefix("./") == FILE and (file := files.extractfile(member)) is not None:
                    return file.read()
    raise BillMissing(f"{layout}: the image for {architecture} has no {FILE}")
