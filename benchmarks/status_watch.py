"""`transom status --watch` on a terminal during a rollout: `python -m benchmarks.status_watch [--hosts 1000] [--columns 80]`.

On a real API server. The rollout is that of an operator with simulated hosts as in `benchmarks.operator_scale` (`--operator`),
or this process writes the statuses that one writes there: two a host, as many in a second. The command is a process of its own
on a pseudo-terminal, and CPU is its own alone.
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
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
from benchmarks.operator_scale import (
    NAMESPACE,
    ROOT,
    Operator,
    beating,
    create,
    done,
    hosts,
    instance,
    prepare,
    put_proxy,
    say,
    until,
)
from lab.control_plane import ControlPlane
from lab.ports import reserve

from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.resources import EGRESS_PROXIES, LEASES, NAMESPACES, WINDOWS_INSTANCES
from transom.manifests.definitions import definitions

LINES = 24
USER = "watcher"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WRITES = 41.0
"""Statuses in a second: 2,000 in the 49 s of a change to 1,000 hosts (benchmarks/README.md, "The operator")."""
TYPES = ("Ready", "Reachable", "Configured", "ProxyApplied", "TrustApplied", "EgressWorks", "NodeReady", "RebootRequired")


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


async def watched(plane: ControlPlane, columns: int, count: int, change: Callable[[], Awaitable[None]]) -> None:
    """What the command takes while a change is carried out, and what it asked for since it began."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": USER, "namespace": NAMESPACE}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": USER, "namespace": NAMESPACE}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": USER}}
    await asyncio.to_thread(plane.apply, [account, binding | {"roleRef": role, "subjects": [subject]}])
    watcher = Watcher(plane, columns)
    try:

        async def drawn() -> bool:
            return any("Ctrl-C ends" in line for line in watcher.frame)

        await until(drawn)
        cpu, begun = watcher.cpu(), time.perf_counter()
        changing = asyncio.ensure_future(change())
        await asyncio.wait((changing,), timeout=20)
        frame = watcher.frame
        await changing
        wall, used = time.perf_counter() - begun, watcher.cpu() - cpu
    finally:
        watcher.stop()
    say(f"a rollout to {count} hosts, {wall:.0f} s: CPU {used:.2f} s, {used / wall:.1%} of a core")
    asked = [one for one in plane.audit() if one["user"]["username"].endswith(f":{USER}") and "objectRef" in one]
    # a watch that goes on has no end yet
    by_id = {one["auditID"]: (one["verb"], one["objectRef"]["resource"]) for one in asked}
    told = (f"{verb} {resource} {number}" for (verb, resource), number in sorted(Counter(by_id.values()).items()))
    say(f"requests: {', '.join(told)}")
    say("\n".join(frame))


async def with_operator(plane: ControlPlane, client: Client, count: int, columns: int) -> None:
    async with hosts(count) as found:
        await prepare(plane, client, found.key, found.ports, count)
        operator = Operator(plane, reserve(), "egress,hosts")

        async def change() -> None:
            before = await operator.passes()
            await put_proxy(client, "http://second.example:3128")
            await until(lambda: done(operator, before + count))

        try:
            async with beating(client, found, count):
                operator.start("30m")
                await until(operator.ready, every=0.1)
                await until(lambda: done(operator, count))
                await watched(plane, columns, count, change)
        finally:
            operator.stop()


async def written(plane: ControlPlane, client: Client, count: int, columns: int) -> None:
    await asyncio.to_thread(plane.define, definitions())
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    await put_proxy(client, "http://first.example:3128")
    await create(client, ((WINDOWS_INSTANCES, instance(number, 22)) for number in range(count)))
    await statuses(client, range(count), ready=True, writes=1000.0)
    await of_settings(client, count, count)

    async def change() -> None:
        renewing = asyncio.create_task(renew(client))
        await of_settings(client, 0, count)
        await statuses(client, range(count), ready=False, writes=2 * WRITES)
        for first in range(0, count, 100):
            await statuses(client, range(first, min(first + 100, count)), ready=True, writes=2 * WRITES)
            await of_settings(client, min(first + 100, count), count)
        renewing.cancel()

    await watched(plane, columns, count, change)


async def statuses(client: Client, numbers: range, *, ready: bool, writes: float) -> None:
    """The statuses of hosts, as many in a second."""
    waiting = "the settings have changed, and it is not yet the host's turn"
    begun, made = time.perf_counter(), 0
    turn = iter(numbers)

    async def work() -> None:
        nonlocal made
        for number in turn:
            made += 1
            await asyncio.sleep(max(0.0, begun + made / writes - time.perf_counter()))
            status, reason, message = ("True", "Ready", "it is as asked for") if ready else ("False", "Pending", waiting)
            name = f"win-{number:05}"
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            head = {"status": status, "reason": reason, "message": message, "lastTransitionTime": now}
            value: dict[str, Any] = {
                "apiVersion": WINDOWS_INSTANCES.api_version,
                "kind": WINDOWS_INSTANCES.kind,
                "metadata": {"name": name, "namespace": NAMESPACE},
                "status": {"lastChecked": now, "conditions": [head | {"type": one} for one in TYPES]},
            }
            await client.server_side_apply(WINDOWS_INSTANCES, value, name, NAMESPACE, subresource="status")

    await asyncio.gather(*(work() for _ in range(8)))


async def of_settings(client: Client, updated: int, count: int) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    message = f"{updated:,} of {count:,} hosts have these settings"
    head = {"status": "True" if updated == count else "False", "reason": "Pending", "message": message}
    value = {
        "apiVersion": EGRESS_PROXIES.api_version,
        "kind": EGRESS_PROXIES.kind,
        "metadata": {"name": "cluster"},
        "status": {
            "hosts": {"total": count, "updated": updated, "waiting": count - updated, "failed": 0},
            "conditions": [head | {"type": "Ready", "lastTransitionTime": now}],
        },
    }
    await client.server_side_apply(EGRESS_PROXIES, value, "cluster", subresource="status")


async def renew(client: Client) -> None:
    """The lease, as often as its holder renews it."""
    while True:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "transom-0", "leaseDurationSeconds": 15, "renewTime": now}
        value = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": {"name": "transom"}, "spec": spec}
        await client.server_side_apply(LEASES, value, "transom", NAMESPACE)
        await asyncio.sleep(2)


async def run(count: int, columns: int, *, operator: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="transom-benchmark-") as directory, ControlPlane(Path(directory)) as plane:
        connection = connect(str(plane.kubeconfig))
        try:
            await (with_operator if operator else written)(plane, Client(connection), count, columns)
        finally:
            await connection.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--operator", action="store_true")
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    asyncio.run(run(chosen.hosts, chosen.columns, operator=chosen.operator))


if __name__ == "__main__":
    main()
