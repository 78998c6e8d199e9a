"""Windows Server releases that Kubernetes runs on, and what their containers need."""

import msgspec


class Release(msgspec.Struct, frozen=True):
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
        Release("2019", "10.0.17763", "ltsc2019"),
        Release("2022", "10.0.20348", "ltsc2022"),
        Release("2025", "10.0.26100", "ltsc2025"),
    )
}
"""Kubernetes: "Windows containers in Kubernetes", Windows OS version compatibility."""

LICENCE = "every machine needs a licence of Windows Server: that is between you and Microsoft or your provider"
