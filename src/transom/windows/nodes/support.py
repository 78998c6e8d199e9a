"""Which versions are known to work: one table, for the code that warns and for people; and which kubelet may join.

Source of the latter: Kubernetes, "Version Skew Policy".
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

_MINOR: Final = re.compile(r"v?(\d+)\.(\d+)")
_OLDEST: Final = 3
"""Minor versions that a kubelet may be older than the API server, from 1.28 on."""


class Release(msgspec.Struct, frozen=True):
    """A release of Windows Server. `update`: the least revision of the build that works, and the update that brings it."""

    name: str
    build: int
    update: int = 0
    update_name: str = ""
    platforms: tuple[str, ...] = ()
    """Of OpenShift, those that it is supported on; none: any."""
    custom_port: bool = True
    """Whether the overlay may have another VXLAN port than the default."""
    note: str = ""


class VersionedPart(msgspec.Struct, frozen=True):
    """Another component with versions: the supported ones and the source.

    `least`: the oldest major and minor version without a warning.
    """

    name: str
    works: str
    source: str
    least: tuple[int, int] = (0, 0)
    remedy: str = ""


RELEASES: Final = (
    Release(
        "Windows Server 2019",
        17763,
        platforms=("AWS", "Azure", "None"),
        custom_port=False,
        note="static addresses require `DeviceLessNicDisabled` (WMCO, docs/byoh-instance-pre-requisites.md)",
    ),
    Release("Windows Server 2022", 20348, 681, "KB5012637", note="static addresses work unchanged"),
    Release("Windows Server 2025", 26100, note="OpenSSH is installed, but must be started"),
)
"""Source: WMCO at 0be4b9ccb, docs/wmco-prerequisites.md, docs/byoh-instance-pre-requisites.md, pkg/secrets/secrets.go."""
OPENSHIFT: Final = VersionedPart(
    "OpenShift",
    "4.14 (Kubernetes 1.27) and later, with the hybrid overlay",
    "WMCO, docs/wmco-prerequisites.md: on every platform from that version on",
    (1, 27),
    "use OpenShift 4.14 or later",
)
"""`least` is of its Kubernetes."""
OPENSSH: Final = VersionedPart(
    "OpenSSH for Windows",
    "7.7 and later",
    "the version that Windows Server 2019 installs as a capability (Win32-OpenSSH#1317); protocol tests only",
    (7, 7),
    "update the capability OpenSSH.Server, or install a newer release of Win32-OpenSSH",
)
CONTAINERD: Final = VersionedPart(
    "containerd",
    "1.7 and 2",
    "containerd, docs/hosts.md and its configuration version 2; its archive includes the matching shim",
    (1, 7),
    "use a payload with a newer one, and its shim",
)
PARTS: Final = (
    VersionedPart(
        "Kubernetes",
        "a kubelet of the API server's minor version, or up to three minor versions older",
        "Kubernetes, Version Skew Policy",
    ),
    OPENSHIFT,
    OPENSSH,
    CONTAINERD,
    VersionedPart(
        "containerd-shim-runhcs-v1",
        "0.9.1 and later, included in containerd 1.7 and later",
        "microsoft/hcsshim: containers outlive a restart of containerd",
    ),
)
_OPENSSH: Final = re.compile(r"OpenSSH_for_Windows_(\d{1,4})\.(\d{1,4})")
_RUNTIME: Final = re.compile(r"containerd://v?(\d{1,4})\.(\d{1,4})")
_KUBERNETES: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})")
DEFAULT_PORT: Final = "4789"
_VERSION: Final = re.compile(r"10\.0\.(\d+)(?:\.(\d+))?")


def iter_windows_problems(os_version: str, *, platform: str = "", vxlan_port: str = "") -> Iterator[str]:
    """Yield what may not work on a Windows version (`10.0.20348.2485`), each with a fix; none if it is unknown."""
    version_match = _VERSION.match(os_version)
    if version_match is None:
        return
    build, update = int(version_match[1]), int(version_match[2] or 0)
    release = next((release for release in RELEASES if release.build == build), None)
    if release is None:
        known = ", ".join(f"{release.name} ({release.build})" for release in RELEASES)
        yield f"Windows build {build} is none of those that are known to work: {known}"
        return
    if version_match[2] and update < release.update:
        yield f"{release.name} build {build}.{update} lacks {release.update_name} (build {build}.{release.update}): install it"
    if release.platforms and platform and platform.casefold() not in {platform.casefold() for platform in release.platforms}:
        yield f"{release.name} is not supported on {platform} (but on {', '.join(release.platforms)}): use a newer release"
    if not release.custom_port and vxlan_port not in ("", DEFAULT_PORT):
        yield f"{release.name} has the VXLAN port {DEFAULT_PORT} alone, and the cluster's is {vxlan_port}: use a newer release"


def iter_outdated_programs(*, ssh_server: str = "", runtime: str = "", openshift: str = "") -> Iterator[str]:
    """Yield each program older than the oldest supported version, with a fix. Unreadable versions are skipped.

    `ssh_server` is the version that the SSH server reports (`SSH-2.0-OpenSSH_for_Windows_8.1`), `runtime` that of the Node
    (`containerd://2.3.4`), `openshift` the API server's on OpenShift (`v1.27.3`).
    """
    reported_versions = ((OPENSSH, _OPENSSH, ssh_server), (CONTAINERD, _RUNTIME, runtime), (OPENSHIFT, _KUBERNETES, openshift))
    for part, version, text in reported_versions:
        version_match = version.search(text)
        if version_match is not None and (int(version_match[1]), int(version_match[2])) < part.least:
            reported = f"{version_match[1]}.{version_match[2]}"
            yield f"{part.name} {reported} is older than what is known to work ({part.works}): {part.remedy}"


def render_support_table() -> str:
    """Render the support table as Markdown, for the documentation page."""
    rows = []
    for release in RELEASES:
        least = f".{release.update} ({release.update_name})" if release.update else ""
        port = "any" if release.custom_port else f"{DEFAULT_PORT} only"
        rows.append(
            f"| {release.name} | {release.build}{least} | {', '.join(release.platforms) or 'any'} | {port} | {release.note} |"
        )
    parts = [f"| {part.name} | {part.works} | {part.source} |" for part in PARTS]
    head = "| Windows | minimum build | OpenShift's platforms | VXLAN port | |\n|---|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n\n| what | works | source |\n|---|---|---|\n" + "\n".join(parts) + "\n"


def find_skew_refusal(kubelet: str, server: str) -> str | None:
    """Why a kubelet of this version may not join; None where it may. Versions as `v1.36.3`."""
    ours, theirs = parse_minor(kubelet), parse_minor(server)
    if ours is None or theirs is None:
        return None if theirs is None else f"the payload's kubelet version {kubelet} cannot be read"
    if ours > theirs:
        return f"the payload's kubelet is {kubelet}, newer than the API server ({server}): use an older payload"
    if theirs[1] - ours[1] > _OLDEST or ours[0] != theirs[0]:
        return f"the payload's kubelet is {kubelet}, more than {_OLDEST} minor versions older than the API server ({server})"
    return None


def find_skew_warning(kubelet: str, nodes: set[str]) -> str | None:
    """Return a warning if the kubelet's version differs from those of the Linux nodes; None if it does not."""
    others = {minor_version for version in nodes if (minor_version := parse_minor(version)) is not None}
    if not others or parse_minor(kubelet) in others:
        return None
    listed = ", ".join(f"1.{other[1]}" for other in sorted(others))
    return f"the payload's kubelet is {kubelet}, the Linux nodes have {listed}"


def parse_minor(version: str) -> tuple[int, int] | None:
    """Major and minor version."""
    version_match = _MINOR.match(version)
    return (int(version_match[1]), int(version_match[2])) if version_match else None
