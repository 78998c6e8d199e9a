"""Which kubelet may join which API server (Kubernetes, "Version Skew Policy")."""

import re
from typing import Final

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")
_OLDEST: Final = 3
"""Minor versions that a kubelet may be older than the API server, from 1.28 on."""


def refusal(kubelet: str, server: str) -> str | None:
    """Why a kubelet of this version may not join; None where it may. Versions as `v1.36.3`."""
    ours, theirs = minor(kubelet), minor(server)
    if ours is None or theirs is None:
        return None if theirs is None else f"the payload's kubelet version {kubelet} cannot be read"
    if ours > theirs:
        return f"the payload's kubelet is {kubelet}, newer than the API server ({server}): use an older payload"
    if theirs[1] - ours[1] > _OLDEST or ours[0] != theirs[0]:
        return f"the payload's kubelet is {kubelet}, more than {_OLDEST} minor versions older than the API server ({server})"
    return None


def warning(kubelet: str, nodes: set[str]) -> str | None:
    """What is odd about a kubelet beside those of the Linux nodes; None where nothing is."""
    others = {one for version in nodes if (one := minor(version)) is not None}
    if not others or minor(kubelet) in others:
        return None
    listed = ", ".join(f"1.{one[1]}" for one in sorted(others))
    return f"the payload's kubelet is {kubelet}, the Linux nodes have {listed}"


def minor(version: str) -> tuple[int, int] | None:
    """Major and minor version."""
    found = _VERSION.match(version)
    return (int(found[1]), int(found[2])) if found else None
