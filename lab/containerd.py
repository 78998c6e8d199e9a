"""Debian's containerd in a network namespace, and images pulled through it over CRI, as kubelet does."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from lab import build
from lab.place import Place
from lab.process import Process

PROGRAM = "/usr/bin/containerd"
_START_SECONDS = 120
_STARTING = "server is not initialized yet"
"""containerd, ``pkg/cri/server/instrumented_service.go``, ``checkInitialized``."""


class ContainerdError(Exception):
    """containerd did not start; the message holds the end of its log."""


class Containerd:
    """A running containerd with the given environment. A context manager stops it and removes its files."""

    def __init__(self, place: Place, environment: Mapping[str, str], authorities: str = "") -> None:
        """Start it.

        Args:
            place: the namespace that it runs in.
            environment: as its service would have it.
            authorities: the certificates that it trusts, in PEM; those of the machine without it.
        """
        self._place = place
        self.directory = Path(tempfile.mkdtemp(prefix="transom-containerd-"))
        self._socket = self.directory / "containerd.sock"
        settings = self.directory / "config.toml"
        settings.write_text(_render_settings(self.directory, self._socket))
        environment = {"PATH": os.defpath, **environment}
        if authorities:
            (self.directory / "ca.pem").write_text(authorities)
            environment |= {"SSL_CERT_FILE": str(self.directory / "ca.pem"), "SSL_CERT_DIR": str(self.directory / "none")}
        command: list[str | Path] = [*place.inside, PROGRAM, "--config", settings]
        self._process = Process(command, self.directory / "containerd.log", environment)
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Containerd:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pull(self, image: str) -> str:
        """Pull an image; return an empty string, or the error."""
        command: list[str | Path] = [*self._place.inside, build.build_program(build.CRI_PULL), self._socket, image]
        end = time.monotonic() + _START_SECONDS
        while True:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            # the socket answers before its CRI does
            if _STARTING not in done.stdout or time.monotonic() > end:
                return done.stdout if done.returncode else ""
            time.sleep(0.05)

    def read_environment(self) -> dict[str, str]:
        """Return the environment of the running program, as the kernel reports it."""
        pid = int((self.directory / "containerd.child").read_text())
        items = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
        return dict(item.split("=", 1) for item in items if item)

    def close(self) -> None:
        """Stop it and remove its files."""
        self._process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _wait(self) -> None:
        end = time.monotonic() + _START_SECONDS
        while not self._socket.exists():
            if self._process.has_ended() or time.monotonic() > end:
                raise ContainerdError(self._process.log.read_text()[-2000:])
            time.sleep(0.05)


def _render_settings(directory: Path, socket: Path) -> str:
    """Render settings with only what a pull needs; the native snapshotter works on any file system.

    No CNI directory has a file that changes: containerd reads its networks again at each change there, and logs that there are
    none. With the log in that directory, this took a whole core.
    """
    return (
        f'version = 2\nroot = "{directory}/root"\nstate = "{directory}/state"\n'
        f'[grpc]\n  address = "{socket}"\n'
        f'[ttrpc]\n  address = "{directory}/ttrpc.sock"\n'
        '[plugins."io.containerd.grpc.v1.cri"]\n  disable_tcp_service = true\n'
        '  [plugins."io.containerd.grpc.v1.cri".containerd]\n    snapshotter = "native"\n'
        f'  [plugins."io.containerd.grpc.v1.cri".cni]\n    bin_dir = "{directory}/cni"\n    conf_dir = "{directory}/cni"\n'
        f'[plugins."io.containerd.internal.v1.opt"]\n  path = "{directory}/opt"\n'
    )
