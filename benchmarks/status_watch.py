"""`transom status --watch` on a terminal during a rollout: `python -m benchmarks.status_watch [--hosts 1000] [--columns 80]`.

API server, simulated hosts and operator as in `benchmarks.operator_scale`; the command is a process of its own on a
pseudo-terminal, and its CPU is its own alone. Without nodes, which it does not look at.
"""

import argparse
import asyncio
import fcntl
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections import Counter
from pathlib import Path

import structlog
from benchmarks.operator_scale import NAMESPACE, ROOT, Operator, beating, done, hosts, prepare, put_proxy, say, until
from lab.control_plane import ControlPlane

from transom.kube.client import Client
from transom.kube.connection import connect

LINES = 24
USER = "watcher"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Watcher:
    """The command, and what its terminal shows."""

    def __init__(self, plane: ControlPlane, columns: int) -> None:
        token = plane.service_account_token(NAMESPACE, USER)
        kubeconfig = plane.user_kubeconfig(USER, token)
        self._terminal, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
        command = [sys.executable, "-m", "transom", "status", "--watch", f"--kubeconfig={kubeconfig}"]
        environment = os.environ | {"TERM": "xterm-256color"}
        self._process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, cwd=ROOT, env=environment)
        os.close(end)
        self._shown = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                self._shown = (self._shown + os.read(self._terminal, 65536))[-65536:]
            except OSError:
                return

    @property
    def frame(self) -> list[str]:
        """The lines that were drawn last."""
        text = ESCAPE.sub("", self._shown.decode(errors="replace")).replace("\r", "\n")
        lines = [line for line in text.split("\n") if line.strip()]
        ends = [number for number, line in enumerate(lines) if "Ctrl-C ends" in line]
        if len(ends) < 2:
            return lines
        return lines[ends[-2] + 1 : ends[-1] + 1]

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)


async def measure(plane: ControlPlane, client: Client, count: int, columns: int) -> None:
    async with hosts(count) as found:
        await prepare(plane, client, found.key, found.ports, count)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": USER, "namespace": NAMESPACE}}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"kind": "ServiceAccount", "name": USER, "namespace": NAMESPACE}
        binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": USER}}
        await asyncio.to_thread(plane.apply, [account, binding | {"roleRef": role, "subjects": [subject]}])
        operator = Operator(plane, 18081, "egress,hosts")
        watcher: Watcher | None = None
        try:
            async with beating(client, found, count):
                operator.start("30m")
                await until(operator.ready, every=0.1)
                await until(lambda: done(operator, count))
                watcher = Watcher(plane, columns)
                await until(lambda: _drawn(watcher))
                before, cpu, begun = await operator.passes(), watcher.cpu(), time.perf_counter()
                await put_proxy(client, "http://second.example:3128")
                await asyncio.sleep(5)
                frame = watcher.frame
                await until(lambda: done(operator, before + count))
                wall = time.perf_counter() - begun
                used = watcher.cpu() - cpu
            say(f"a rollout to {count} hosts, {wall:.0f} s: CPU {used:.2f} s, {used / wall:.1%} of a core")
            asked = [one for one in plane.audit() if one["user"]["username"].endswith(f":{USER}") and "objectRef" in one]
            # a watch that goes on has no end yet
            by_id = {one["auditID"]: (one["verb"], one["objectRef"]["resource"]) for one in asked}
            told = (f"{verb} {resource} {number}" for (verb, resource), number in sorted(Counter(by_id.values()).items()))
            say(f"requests: {', '.join(told)}")
            say("\n".join(frame))
        finally:
            if watcher is not None:
                watcher.stop()
            operator.stop()


async def _drawn(watcher: Watcher | None) -> bool:
    return watcher is not None and any("Ctrl-C ends" in line for line in watcher.frame)


async def run(count: int, columns: int) -> None:
    with tempfile.TemporaryDirectory(prefix="transom-benchmark-") as directory, ControlPlane(Path(directory)) as plane:
        connection = connect(str(plane.kubeconfig))
        try:
            await measure(plane, Client(connection), count, columns)
        finally:
            await connection.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=80)
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    asyncio.run(run(chosen.hosts, chosen.columns))


if __name__ == "__main__":
    main()
