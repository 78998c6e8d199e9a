"""Edits by kubectl, each followed at once by `kubectl wait --for=condition=Ready egressproxy/cluster`.

`python -m benchmarks.waits`. A real kube-apiserver and kubectl, an operator in this process, simulated hosts behind real SSH
servers. When the wait returns, every registry must have the values. Of ten edits one is invalid, and one is held back by its
endpoint: then it must not return. The first edit is settings and hosts in one file. Exit code 1 where that did not hold.
"""

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

from lab.control_plane import ControlPlane, ControlPlaneError
from tests.support.operator.clusters import Cluster, admin, environment

from transom.kube.resources import EGRESS_PROXIES, WINDOWS_INSTANCES
from transom.manifests.definitions import definitions
from winsim import Host, Simulator

SHORT = 3.0
"""Seconds that are waited after an edit that does not hold."""


class Waits:
    """What was seen of so many edits."""

    def __init__(self, cluster: Cluster, hosts: list[Host]) -> None:
        self.cluster, self.hosts = cluster, hosts
        self.seconds: list[float] = []
        self.early = self.withheld = self.wrong = 0

    async def good(self, spec: dict[str, Any], *more: dict[str, Any]) -> None:
        """An edit that holds; nothing is done between it and the wait."""
        await self.apply(spec, *more)
        begun = time.monotonic()
        await self.cluster.wait_ready(seconds=300)
        self.seconds.append(time.monotonic() - begun)
        items = {f"{name}={spec[field]}" for name, field in (("HTTP_PROXY", "httpProxy"), ("HTTPS_PROXY", "httpsProxy"))}
        items |= {f"NO_PROXY={spec['noProxy']}"} if spec.get("noProxy") == "*" else set()
        has = [items <= set(environment(host, service)) for host in self.hosts for service in ("containerd", "kubelet")]
        self.early += not all(has)

    async def bad(self, spec: dict[str, Any]) -> None:
        """An edit that does not hold."""
        await self.apply(spec)
        try:
            await self.cluster.wait_ready(seconds=SHORT)
        except ControlPlaneError:
            self.withheld += 1
        else:
            self.wrong += 1

    async def apply(self, spec: dict[str, Any], *more: dict[str, Any]) -> None:
        base = {"apiVersion": EGRESS_PROXIES.api_version, "kind": "EgressProxy", "metadata": {"name": "cluster"}, "spec": spec}
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*more, base]})
        await asyncio.to_thread(self.cluster.control_plane.kubectl, "apply", "-f", "-", input=text)


async def run(edits: int, number: int) -> int:
    with ControlPlane() as plane:
        plane.define(definitions())
        async with admin(plane) as client, Simulator() as simulator:
            cluster = Cluster(plane, client, simulator)
            await cluster.prepare()
            hosts = [await simulator.add_host() for _ in range(number)]
            instances = [
                {
                    "apiVersion": WINDOWS_INSTANCES.api_version,
                    "kind": "WindowsInstance",
                    "metadata": {"name": f"win-{index}", "namespace": cluster.namespace},
                    "spec": {"address": host.address, "port": host.port, "username": host.username},
                }
                for index, host in enumerate(hosts)
            ]
            seen = Waits(cluster, hosts)
            async with cluster.operator():
                await seen.good(proxied(0), *instances)
                for edit in range(1, edits):
                    match edit % 10:
                        case 4:
                            await seen.bad(proxied(edit) | {"trustedCA": {"name": "nobody"}})
                        case 8:
                            endpoint = {"readinessEndpoints": ["http://registry.example/"], "httpProxy": "http://127.0.0.1:9"}
                            await seen.bad(proxied(edit) | endpoint)
                        case 6:
                            await seen.good(proxied(edit) | {"noProxy": "*"})
                        case _:
                            await seen.good(proxied(edit))
            await cluster.leave()
    print(
        f"{edits} edits, {number} hosts: {len(seen.seconds)} waits returned, {seen.early} before every registry had "
        f"the values (median {statistics.median(seen.seconds):.1f} s, most {max(seen.seconds):.1f} s); after {seen.withheld} "
        f"of {seen.withheld + seen.wrong} edits that do not hold none returned within {SHORT:.0f} s"
    )
    return int(bool(seen.early or seen.wrong))


def proxied(edit: int) -> dict[str, Any]:
    """Settings that no edit before had."""
    return {"httpProxy": f"http://proxy-{edit}.corp.example:3128", "httpsProxy": f"http://proxy-{edit}.corp.example:3129"}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--edits", type=int, default=50)
    parser.add_argument("--hosts", type=int, default=40)
    chosen = parser.parse_args()
    return asyncio.run(run(chosen.edits, chosen.hosts))


if __name__ == "__main__":
    raise SystemExit(main())
