"""Windows Server releases that Kubernetes runs on, what their containers need, and how images of them are called."""

import msgspec

from transom.capi.check import upstream
from transom.windows.nodes.scheduling import WINDOWS_BUILDS


class WindowsRelease(msgspec.Struct, frozen=True):
    """A release: its year, its build as nodes are labelled with (`node.kubernetes.io/windows-build`), its base images' tag.

    Process-isolated containers run on the build that their base image was made for (Microsoft: "Windows container version
    compatibility").
    """

    year: str
    build: str
    tag: str


RELEASES = {
    release.year: release
    for release in (
        WindowsRelease("2019", WINDOWS_BUILDS["2019"], "ltsc2019"),
        WindowsRelease("2022", WINDOWS_BUILDS["2022"], "ltsc2022"),
        WindowsRelease("2025", WINDOWS_BUILDS["2025"], "ltsc2025"),
    )
}
"""Kubernetes: "Windows containers in Kubernetes", Windows OS version compatibility."""

PAUSE = {
    32: upstream.PAUSE_1_32.value,
    33: upstream.PAUSE_1_33.value,
    34: upstream.PAUSE_1_34.value,
    35: upstream.PAUSE_1_35.value,
    36: upstream.PAUSE_1_36.value,
}
"""The pause image's version by Kubernetes' minor one: the pairs with `RELEASES` are those that Transom makes workers for."""
SUPERSEDED = "2019"
"""Its mainstream support ended in January 2024, the extended one ends in January 2029 (Microsoft: "Windows Server 2019")."""


def parse_minor(version: str) -> int:
    """Return the minor version of `v1.N.M`, with or without `v` and patch version."""
    return int(version.split(".")[1])


def select_pause_image(windows: str, kubernetes_version: str) -> str:
    """Return the pause image of that version's kubeadm; for Server 2025 at least the first one that supports it."""
    version = PAUSE[min(max(parse_minor(kubernetes_version), min(PAUSE)), max(PAUSE))]
    if windows == "2025":
        version = max(version, upstream.PAUSE_2025.value, key=lambda text: [int(part) for part in text.split(".")])
    return f"registry.k8s.io/pause:{version}"


LICENCE = "every machine needs a licence of Windows Server: that is between you and Microsoft or your provider"


def build_image_name(windows: str, version: str) -> str:
    """`transom-windows-2022-v1.36.3`; a build may add its time. A vendor's `+` is in no provider's names."""
    return f"transom-windows-{windows}-{version.replace('+', '-')}"


def build_image_family(windows: str, version: str) -> str:
    """Return the image's name without dots, for Google's cloud: `transom-windows-2022-v1-36-3`."""
    return build_image_name(windows, version).replace(".", "-").lower()
