"""A bare Debian 12, as a new virtual machine or container has it, in a directory and a network of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from image.progress import run_step

from lab import cache
from lab.place import Place
from lab.process import Process

SUITE: Final = "bookworm"
PACKAGES: Final = ("ca-certificates", "git")
"""What README says that a machine has before its first command, besides apt."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOME: Final = "/root"
"""The home of root on that machine."""
_SIZE: Final = "8g"
"""At most, of memory: to remove that many files from a disk takes minutes."""
_BEGIN: Final = """
set -eu
mount -t tmpfs -o "mode=755,size=$3" tmpfs "$1"
tar -C "$1" -xf "$2"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
echo ready
exec sleep infinity
"""
_START_SECONDS: Final = 300


class BareDebianError(Exception):
    """The root could not be made; the message holds the end of what mmdebstrap said."""


def build_archive() -> Path:
    """Return the tar archive of the root, made by mmdebstrap from the Debian archive of this machine's apt.

    Raises BareDebianError.
    """
    if not shutil.which("mmdebstrap"):
        raise BareDebianError("mmdebstrap is not installed: run scripts/install")
    sources = "".join(f"deb {line}\n" for line in sorted(_read_sources()))

    def make(target: Path) -> None:
        listed = target / "sources.list"
        listed.write_text(sources)
        options = ("--variant=minbase", "--dpkgopt=force-unsafe-io", f"--include={','.join(PACKAGES)}")
        command: list[str | Path] = ["mmdebstrap", *options, SUITE, target / "root.tar", listed]
        with run_step("making a bare Debian"):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BareDebianError(f"mmdebstrap failed:\n{done.stderr[-2000:]}")

    return cache.get_entry("bare-debian", cache.digest([SUITE, *PACKAGES, sources]), make) / "root.tar"


def _read_sources() -> set[str]:
    """Return `URI SUITE COMPONENT` of each index of the suite that this machine's apt reads."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    sources = {line for line in done.stdout.splitlines() if line.split()[1].startswith(SUITE)}
    if not sources:
        raise BareDebianError(f"apt has no sources of Debian {SUITE} on this machine")
    return sources


class BareDebian:
    """A machine in memory: a root, processes and a network of its own. It ends with this process, and leaves nothing."""

    def __init__(self, place: Place, gateway: str, certificate: str) -> None:
        """Start it.

        Args:
            place: its network.
            gateway: the address of its name server.
            certificate: a CA in PEM that its system's store trusts.
        """
        self._directory = Path(tempfile.mkdtemp(prefix="transom-bare-debian-"))
        self._root = self._directory / "root"
        self._root.mkdir()
        log = self._directory / "machine.log"
        network = ("nsenter", f"--net={place.namespace}")
        apart = ("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
        begin = ("/bin/sh", "-c", _BEGIN, "begin", self._root, build_archive(), _SIZE)
        # unshare(1) waits for its child whatever signal it gets
        self._process = Process([*network, *apart, *begin], log, ending="KILL")
        try:
            self._first = self._wait(log)
            self.put("/etc/resolv.conf", f"nameserver {gateway}\n")
            self.put("/etc/hosts", "127.0.0.1 localhost\n")
            self.put("/usr/local/share/ca-certificates/proxy.crt", certificate)
            self.run(["update-ca-certificates"], check=True)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> BareDebian:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, with all that runs there."""
        self._process.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def get_host_path(self, path: str) -> Path:
        """Return a file of the machine, as this one sees it (proc(5), /proc/PID/root)."""
        return Path(f"/proc/{self._first}/root{self._root}", path.lstrip("/"))

    def put(self, path: str, text: str) -> None:
        """Write a file of the machine."""
        self.get_host_path(path).parent.mkdir(parents=True, exist_ok=True)
        self.get_host_path(path).write_text(text)

    def run(
        self, words: Sequence[str | Path], environment: Mapping[str, str] | None = None, *, check: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there as root, and return its end: its output with stderr in it, as a person sees it.

        It has a path and a home, or this environment and nothing else.
        """
        variables = {"PATH": PATH, "HOME": HOME} if environment is None else environment
        enter = (
            "nsenter",
            f"--target={self._first}",
            "--mount",
            "--root",
            "--pid",
            "--net",
            "--ipc",
            "--uts",
            "chroot",
            self._root,
        )
        return subprocess.run(
            [*enter, "/usr/bin/env", "-i", *(f"{name}={value}" for name, value in variables.items()), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=check,
        )

    def _wait(self, log: Path) -> int:
        """Return the process that is the first there, once its root is whole."""
        deadline = time.monotonic() + _START_SECONDS
        while "ready" not in log.read_text().split():
            if time.monotonic() > deadline or self._process.has_ended():
                raise BareDebianError(f"the machine did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.05)
        outer = self._process.pid
        return int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])
