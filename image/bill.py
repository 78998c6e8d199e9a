"""The bill of materials: what is in the image, as CycloneDX 1.6."""

from __future__ import annotations

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

FILE = "usr/share/sbom/transom.cdx.json"


def write(tree: Path, roots: tuple[Path, ...], architecture: str, version: str, epoch: int) -> None:
    """Write it into a tree: Debian's packages and Python's of all `roots`. The same content gives the same bytes."""
    transom = Component(name="transom", version=version, type=ComponentType.CONTAINER, bom_ref="image")
    found = sorted((*_of_debian(roots[0]), *_of_python(roots)), key=lambda one: str(one.purl))
    bom = Bom(
        components=found,
        serial_number=uuid5(NAMESPACE_URL, " ".join((architecture, version, *(str(one.purl) for one in found)))),
        metadata=BomMetaData(component=transom, timestamp=datetime.fromtimestamp(epoch, UTC)),
    )
    bom.register_dependency(transom, found)
    target = tree / FILE
    target.parent.mkdir(parents=True)
    target.write_text(JsonV1Dot6(bom).output_as_string(indent=1) + "\n")


def _of_debian(root: Path) -> Iterator[Component]:
    for package in debian.described(root):
        qualifiers = {"arch": package["Architecture"], "distro": debian.SUITE}
        url = PackageURL("deb", "debian", package["Package"], package["Version"], qualifiers)
        yield Component(name=package["Package"], version=package["Version"], purl=url, bom_ref=str(url))


def _of_python(roots: tuple[Path, ...]) -> Iterator[Component]:
    for file in sorted(file for root in roots for file in (root / PACKAGES).glob("*.dist-info/METADATA")):
        told = HeaderParser().parsestr(file.read_text("utf-8"))
        name, version = str(told["Name"]), str(told["Version"])
        url = PackageURL("pypi", None, name.lower().replace("_", "-").replace(".", "-"), version)
        yield Component(name=name, version=version, purl=url, bom_ref=str(url))
