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
    """Something else that has versions: what works, and where that is said. `least`: major and minor, what is older is told."""

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
        note="static addresses need `DeviceLessNicDisabled` (WMCO, docs/byoh-instance-pre-requisites.md)",
    ),
    Release("Windows Server 2022", 20348, 681, "KB5012637", note="static addresses work as they are"),
    Release("Windows Server 2025", 26100, note="OpenSSH is there, and has to be started"),
)
"""Source: WMCO at 0be4b9ccb, docs/wmco-prerequisites.md, docs/byoh-instance-pre-requisites.md, pkg/secrets/secrets.go."""
OPENSHIFT: Final = VersionedPart(
    "OpenShift",
    "4.14 (Kubernetes 1.27) and later, with the hybrid overlay",
    "WMCO, docs/wmco-prerequisites.md: on every platform from there on",
    (1, 27),
    "use OpenShift 4.14 or later",
)
"""`least` is of its Kubernetes."""
OPENSSH: Final = VersionedPart(
    "OpenSSH for Windows",
    "7.7 and later",
    "the capability of Windows Server 2019 (Win32-OpenSSH#1317); tests of the protocol alone",
    (7, 7),
    "update the capability OpenSSH.Server, or install a newer release of Win32-OpenSSH",
)
CONTAINERD: Final = VersionedPart(
    "containerd",
    "1.7 and 2",
    "containerd, docs/hosts.md and its configuration version 2; its archive has the shim that fits it",
    (1, 7),
    "use a payload with a newer one, and its shim",
)
PARTS: Final = (
    VersionedPart(
        "Kubernetes", "a kubelet of the API server's minor version, or up to three older", "Kubernetes, Version Skew Policy"
    ),
    OPENSHIFT,
    OPENSSH,
    CONTAINERD,
    VersionedPart(
        "containerd-shim-runhcs-v1",
        "0.9.1 and later: that of containerd 1.7 and later",
        "microsoft/hcsshim: containers outlive a restart of containerd",
    ),
)
_OPENSSH: Final = re.compile(r"OpenSSH_for_Windows_(\d{1,4})\.(\d{1,4})")
_RUNTIME: Final = re.compile(r"containerd://v?(\d{1,4})\.(\d{1,4})")
_KUBERNETES: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})")
DEFAULT_PORT: Final = "4789"
_VERSION: Final = re.compile(r"10\.0\.(\d+)(?:\.(\d+))?")


def problems(os_version: str, *, platform: str = "", vxlan_port: str = "") -> Iterator[str]:
    """What is not known to work of a host's Windows, `10.0.20348.2485`, each with what to do. Unknown versions are none."""
    found = _VERSION.match(os_version)
    if found is None:
        return
    build, update = int(found[1]), int(found[2] or 0)
    release = next((one for one in RELEASES if one.build == build), None)
    if release is None:
        known = ", ".join(f"{one.name} ({one.build})" for one in RELEASES)
        yield f"Windows build {build} is none of those that are known to work: {known}"
        return
    if found[2] and update < release.update:
        yield f"{release.name} build {build}.{update} lacks {release.update_name} (build {build}.{release.update}): install it"
    if release.platforms and platform and platform.casefold() not in {one.casefold() for one in release.platforms}:
        yield f"{release.name} is not supported on {platform} (but on {', '.join(release.platforms)}): use a newer release"
    if not release.custom_port and vxlan_port not in ("", DEFAULT_PORT):
        yield f"{release.name} has the VXLAN port {DEFAULT_PORT} alone, and the cluster's is {vxlan_port}: use a newer release"


def programs(*, ssh_server: str = "", runtime: str = "", openshift: str = "") -> Iterator[str]:
    """What is older than what is known to work, each with what to do. What cannot be read is none.

    `ssh_server` is the version that the SSH server gives itself (`SSH-2.0-OpenSSH_for_Windows_8.1`), `runtime` that of the
    Node (`containerd://2.3.4`), `openshift` the API server's on OpenShift (`v1.27.3`).
    """
    told = ((OPENSSH, _OPENSSH, ssh_server), (CONTAINERD, _RUNTIME, runtime), (OPENSHIFT, _KUBERNETES, openshift))
    for part, version, text in told:
        found = version.search(text)
        if found is not None and (int(found[1]), int(found[2])) < part.least:
            yield f"{part.name} {found[1]}.{found[2]} is older than what is known to work ({part.works}): {part.remedy}"


def table() -> str:
    """The table as Markdown, for the page."""
    rows = []
    for one in RELEASES:
        least = f".{one.update} ({one.update_name})" if one.update else ""
        port = "any" if one.custom_port else f"{DEFAULT_PORT} alone"
        rows.append(f"| {one.name} | {one.build}{least} | {', '.join(one.platforms) or 'any'} | {port} | {one.note} |")
    parts = [f"| {one.name} | {one.works} | {one.source} |" for one in PARTS]
    head = "| Windows | build, at least | OpenShift's platforms | VXLAN port | |\n|---|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n\n| what | works | source |\n|---|---|---|\n" + "\n".join(parts) + "\n"


def skew_refusal(kubelet: str, server: str) -> str | None:
    """Why a kubelet of this version may not join; None where it may. Versions as `v1.36.3`."""
    ours, theirs = minor(kubelet), minor(server)
    if ours is None or theirs is None:
        return None if theirs is None else f"the payload's kubelet version {kubelet} cannot be read"
    if ours > theirs:
        return f"the payload's kubelet is {kubelet}, newer than the API server ({server}): use an older payload"
    if theirs[1] - ours[1] > _OLDEST or ours[0] != theirs[0]:
        return f"the payload's kubelet is {kubelet}, more than {_OLDEST} minor versions older than the API server ({server})"
    return None


def skew_warning(kubelet: str, nodes: set[str]) -> str | None:
    """What is odd about a kubelet beside those of the Linux nodes; None where nothing is."""
    others = {one for version in nodes if (one := minor(version)) is not None}
    if not others or minor(kubelet) in others:
        return None
    listed = ", ".join(f"1.{one[1]}" for one in sorted(others))
    return f"the payload's kubelet is {kubelet}, the Linux nodes have {listed}"


def minor(version: str) -> tuple[int, int] | None:
    """Major and minor version."""
    found = _MINOR.match(version)
    return (int(found[1]), int(found[2])) if found else None
