"""A machine's file system without a machine: this machine's programs, and files of its own below a directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from lab.place import Place

_DIRECTORIES = ("usr", "opt", "proc", "sys", "dev", "tmp", "run", "var/lib", "etc/ssl/certs", "root")
_ENTER = """
set -eu
# kubelet looks for the mount that its directory is on
mount --bind "$1" "$1"
cd "$1"
shift
for name in bin sbin lib lib64; do
  if [ -L "/$name" ]; then
    ln -sfn "$(readlink "/$name")" "$name"
  elif [ -d "/$name" ]; then
    mkdir -p "$name"
    mount --rbind "/$name" "$name"
  fi
done
mount --rbind /usr usr
mount -t tmpfs none usr/local
mkdir -p usr/local/bin usr/local/share/ca-certificates
for name in proc sys dev; do
  mount --rbind "/$name" "$name"
done
# the kernel takes this root for its own: what it would let it set is read-only
mount --bind proc/sys proc/sys
for point in "$PWD/proc/sys" $(awk -v under="$PWD/sys" 'index($5, under) == 1 { print $5 }' /proc/self/mountinfo); do
  mount -o remount,bind,ro "$point"
done
# kubelet sets these and fails if it cannot, except in a user namespace, which a chroot cannot have: each machine has copies
# (setupKernelTunables in pkg/kubelet/cm/container_manager_linux.go)
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
  kernel/keys/root_maxbytes; do
  [ -e "proc/sys/$name" ] || continue
  mkdir -p "run/sys/${name%/*}"
  [ -e "run/sys/$name" ] || cat "proc/sys/$name" >"run/sys/$name"
  mount --bind "run/sys/$name" "proc/sys/$name"
done
exec chroot . /usr/bin/env -i PATH=/opt/bin:/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root "$@"
"""


class Root:
    """A directory that programs take for ``/``. What lies in its ``/opt/bin`` they find first."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in (*_DIRECTORIES, "opt/bin"):
            (directory / name).mkdir(parents=True)
        for name in ("passwd", "group", "ca-certificates.conf"):
            shutil.copy(f"/etc/{name}", directory / "etc" / name)
        self.put("/etc/hosts", b"127.0.0.1 localhost\n")

    def get_host_path(self, path: str) -> Path:
        """Return the path of a file of the machine on this host."""
        return self.directory / path.lstrip("/")

    def put(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Write a file of the machine."""
        target = self.get_host_path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(mode)

    def install(self, program: Path) -> None:
        """Put a program where the machine finds it first."""
        target = self.directory / "opt/bin" / program.name
        try:
            target.hardlink_to(program)
        except OSError:
            # another file system
            shutil.copy(program, target)

    def build_command(self, words: Sequence[str], place: Place | None = None) -> list[str]:
        """Build the command that runs a command on the machine, with only a PATH and HOME in its environment.

        It has its own user namespace, in which it is root but cannot change this machine's kernel settings, unless this machine
        is a chroot; without a place it has no network.
        """
        inside = ["unshare", *_get_user_options(), "--mount", "--ipc", "--uts"]
        # `ip netns exec` would take the control groups away, which kubelet looks for
        network = ["nsenter", f"--net={place.namespace}", *inside] if place else [*inside, "--net"]
        return [*network, "/bin/sh", "-c", _ENTER, "enter", str(self.directory), *words]


@lru_cache(maxsize=1)
def _get_user_options() -> tuple[str, ...]:
    """Return the options of unshare(1) for a user namespace; none in a chroot, where only root could work without one.

    The kernel permits no user namespace to a process in a chroot (unshare(2), EPERM).
    """
    options = ("--user", "--map-root-user")
    permitted = subprocess.run(("unshare", *options, "true"), stderr=subprocess.DEVNULL, check=False).returncode == 0
    return options if permitted or os.geteuid() != 0 else ()
