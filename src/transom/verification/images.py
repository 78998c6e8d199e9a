"""The images that the pods of the verification run, as data with the places that it was taken from."""

from typing import Final

import msgspec

AGNHOST: Final = "registry.k8s.io/e2e-test-images/agnhost:2.52"
"""One reference for every system: a list of images.

kubernetes/kubernetes test/utils/image/manifest.go (`configs[Agnhost]`); Apache License 2.0. Its Windows variants lie on
Microsoft's Nano Server image (mcr.microsoft.com/windows/nanoserver), under the terms of that base image.
"""
SOURCE: Final = "kubernetes/kubernetes test/images/agnhost/BASEIMAGE"


class Variant(msgspec.Struct, frozen=True):
    """Which of the list's images a build of Windows takes."""

    build: int
    windows: str
    base: str
    """The tag of the base image that the variant lies on."""
    source: str


_STABLE: Final = "microsoft/hcsshim osversion, compatLTSCReleases: a later host runs images from ltsc2022 on"
VARIANTS: Final = (
    Variant(17763, "Windows Server 2019", "1809", SOURCE),
    Variant(20348, "Windows Server 2022", "ltsc2022", SOURCE),
    Variant(26100, "Windows Server 2025", "ltsc2022", _STABLE),
)


def variant_of(version: str) -> Variant | None:
    """The variant for a node's kernel version (`10.0.20348.2485`); None where the list has none for its build."""
    parts = version.split(".")
    build = int(parts[2]) if len(parts) > 2 and parts[2].isdecimal() and len(parts[2]) < 8 else 0
    return next((one for one in VARIANTS if one.build == build), None)


def mirrored(reference: str, mirror: str) -> str:
    """The reference at another registry: `mirror` takes the place of its host, as a mirror of that registry has it."""
    return f"{mirror.rstrip('/')}/{reference.partition('/')[2]}"
