"""A network of the lab: a bridge, and for each machine a network namespace with no way out but what is on the bridge."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from lab.place import Place, reserve_loopback

PROXY_NAME = "proxy.corp.example"
_SETTINGS = Path("/etc/netns")
_LINKS = Path("/sys/class/net")
_OURS = re.compile(r"tlab(?P<number>[0-9]+)(-[0-9]+)?")
_NETWORKS = 200
_FIRST_HOST = 11


class NetworkError(Exception):
    """The network could not be made."""


class Network:
    """A /24 of a /16 that belongs to this process; without the right to create one, the loopback is used.

    In a namespace, names come only from a hosts file, which has just the proxy (``proxy.corp.example``).
    """

    def __init__(self, isolated: bool | None = None, prefix: str = "10.203") -> None:
        """Create the network.

        Args:
           isolated: namespaces (True), the loopback (False), or namespaces if they can be created (None).
           prefix: the first half of its addresses: a machine on which a lab runs is in another /16 than that lab.
        """
        self._claim: socket.socket | None = None
        self._namespaces: list[str] = []
        self._prefix = prefix
        self.isolated = _can_create_namespaces() if isolated is None else isolated
        self.address = "127.0.0.1"
        if self.isolated:
            self._number = self._reserve()
            self.address = f"{self._prefix}.{self._number}.1"
            self._bridge = f"tlab{self._number}"
            _remove(self._number)
            _run_ip("link", "add", self._bridge, "type", "bridge")
            _run_ip("address", "add", f"{self.address}/24", "dev", self._bridge)
            _run_ip("link", "set", self._bridge, "up")

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def proxy_host(self) -> str:
        """The name or address by which a machine reaches what listens on the bridge."""
        return PROXY_NAME if self.isolated else self.address

    def add_place(self, name: str = "") -> Place:
        """Add a place for a machine: an address of its own with port 22, or a free port on the loopback.

        In a namespace the machine can have its own host name, too.
        """
        if not self.isolated:
            return reserve_loopback()
        host = _FIRST_HOST + len(self._namespaces)
        namespace = f"{self._bridge}-{host}"
        outer, inner, address = _format_outer_link(self._bridge, host), "eth0", f"{self._prefix}.{self._number}.{host}"
        settings = _SETTINGS / namespace
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "nsswitch.conf").write_text("hosts: files\n")
        (settings / "hosts").write_text(f"127.0.0.1 localhost\n{self.address} {PROXY_NAME}\n")
        self._namespaces.append(namespace)
        _run_ip("netns", "add", namespace)
        _run_ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", namespace)
        _run_ip("link", "set", outer, "master", self._bridge, "up")
        _run_ip("-n", namespace, "address", "add", f"{address}/24", "dev", inner)
        _run_ip("-n", namespace, "link", "set", inner, "up")
        _run_ip("-n", namespace, "link", "set", "lo", "up")
        inside: tuple[str, ...] = ("ip", "netns", "exec", namespace)
        if name:
            inside += ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name)
        return Place(address, 22, inside, f"/run/netns/{namespace}")

    def close(self) -> None:
        """Remove the namespaces, with what still runs in them, and the bridge."""
        if self.isolated:
            _remove(self._number)
        if self._claim:
            self._claim.close()
            self._claim = None

    def _reserve(self) -> int:
        """Reserve the number of an unused network."""
        for number in range(_NETWORKS):
            if claim := _claim(number):
                self._claim = claim
                return number
        raise NetworkError("all networks of the lab are in use")


def remove_stale_networks() -> None:
    """Remove the networks of processes that were killed."""
    names = [path.name for place in (_LINKS, _SETTINGS) for path in place.glob("tlab*")]
    for number in {int(match["number"]) for name in names if (match := _OURS.fullmatch(name))}:
        if claim := _claim(number):
            with claim:
                _remove(number)


def _claim(number: int) -> socket.socket | None:
    """Claim the network of this number and return its claim, or None if it belongs to another process.

    The claim is an abstract socket (unix(7)): its name is known wherever the bridge is visible, from other roots and
    containers too, and it ends with this process.
    """
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0transom-lab/network/{number}")
    except OSError as error:
        claim.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return claim


def _can_create_namespaces() -> bool:
    """Return True if this process can create network namespaces: a container needs a capability for that."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return False
    trial = f"tlab-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", trial], capture_output=True, check=False).returncode == 0
    if made:
        entered = subprocess.run(["ip", "netns", "exec", trial, "true"], capture_output=True, check=False).returncode == 0
        subprocess.run(["ip", "netns", "delete", trial], capture_output=True, check=False)
        return entered
    return False


def _remove(number: int) -> None:
    """Remove a network, whole or in part; also one whose process was killed."""
    bridge = f"tlab{number}"
    for settings in _SETTINGS.glob(f"{bridge}-*"):
        namespace = settings.name
        pids = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False).stdout.split()
        for pid in pids:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                continue
        # the end of a namespace that was deleted is the kernel's work of some time later: its link would still be there
        outer = _format_outer_link(bridge, namespace.rpartition("-")[2])
        subprocess.run(["ip", "link", "delete", outer], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, check=False)
        shutil.rmtree(settings, ignore_errors=True)
    subprocess.run(["ip", "link", "delete", bridge], capture_output=True, check=False)


def _format_outer_link(bridge: str, host: int | str) -> str:
    """Return the name of the end of a machine's link that is on the bridge."""
    return f"{bridge}v{host}"


def _run_ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NetworkError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
