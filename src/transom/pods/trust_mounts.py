"""What a container mounts itself where the CAs go, above them, or in place of its image's trust store."""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from transom.common.counting import format_first
from transom.pods.pod_types import Container, Mount, Pod

TRUST_STORES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
)
"""Where programs on Linux look for trusted CAs (Go 1.26, src/crypto/x509/root_linux.go)."""
ADDED_CERTIFICATES: Final = (
    "/etc/ssl/certs",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
)
"""Directories to which a container may add single certificates, next to those of its image."""
_SHOWN: Final = 4


class TrustMounts:
    """Finds the mounts of one pod that decide on its CAs, and collects the containers for the warnings."""

    def __init__(self, pod: Pod, directory: str, *, windows: bool) -> None:
        self._pod, self._windows = pod, windows
        self._directory_path = directory
        self._blocked: dict[str, list[str]] = {}
        self._stores: dict[str, list[str]] = {}
        self._added: dict[str, list[str]] = {}

    @cached_property
    def _directory(self) -> tuple[str, ...]:
        return self._split_path(self._directory_path)

    def find_mount_at_directory(self, container: Container) -> Mount | None:
        """Return the mount of the container at the directory of the CAs, however its path is written."""
        return next(
            (
                volume_mount
                for volume_mount in container.volume_mounts or ()
                if self._split_path(volume_mount.mount_path) == self._directory
            ),
            None,
        )

    def can_mount(self, container: Container) -> bool:
        """Return False if the directory would be below a mount in which it cannot be created, or in other data.

        A container runtime creates missing directories in the volume itself: it fails where that is read-only, and leaves them
        on the host, or in a claim, where it is not (kubernetes/kubernetes#121294).
        """
        volumes = {volume.name: volume for volume in self._pod.spec.volumes or ()}
        for mount in container.volume_mounts or ():
            parts, volume = self._split_path(mount.mount_path), volumes.get(mount.name)
            if not _is_parent_path(parts, self._directory) or (volume is not None and volume.nests):
                continue
            if volume is None or volume.empty_dir is None or mount.read_only:
                self._blocked.setdefault(mount.mount_path, []).append(container.name)
                return False
        return True

    def is_blocked(self, container_name: str) -> bool:
        """Return True if `can_mount` was False for the container of that name."""
        return any(container_name in names for names in self._blocked.values())

    def has_own_store(self, container: Container) -> bool:
        """Return True if the container mounts a trust store of its own over that of its image."""
        if self._windows:
            return False
        for mount in container.volume_mounts or ():
            parts = self._split_path(mount.mount_path)
            if any(parts == path or _is_parent_path(parts, path) for path in map(self._split_path, TRUST_STORES)):
                self._stores.setdefault(mount.mount_path, []).append(container.name)
                return True
            if any(_is_parent_path(path, parts) for path in map(self._split_path, ADDED_CERTIFICATES)):
                self._added.setdefault(mount.mount_path, []).append(container.name)
        return False

    def iter_warnings(self) -> Iterator[str]:
        """Yield a line for each kind of mount."""
        for mounts, text in (
            (self._blocked, "no CAs, because the directory would be created in this volume: mount it elsewhere"),
            (self._stores, "a trust store of its own: the CAs are mounted, but no variable names them"),
            (self._added, "certificates of its own: the variables name another file, which does not have them"),
        ):
            for path, names in mounts.items():
                yield f"{format_first(names, _SHOWN)}: mount at {path}: {text}"

    def _split_path(self, path: str) -> tuple[str, ...]:
        """Return the names of a path; on Windows without case, and with the drive C: if none is named."""
        if not self._windows:
            return tuple(part for part in path.split("/") if part not in ("", "."))
        parts = [part for part in re.split(r"[\\/]", path.casefold()) if part not in ("", ".")]
        return tuple(parts if parts and parts[0].endswith(":") else ["c:", *parts])


def _is_parent_path(path: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return len(path) < len(other) and other[: len(path)] == path
