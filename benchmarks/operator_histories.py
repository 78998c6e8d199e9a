"""Random histories of 12 hosts through a real API server (`tests.support.operator.histories`).

`python -m benchmarks.operator_histories [--runs N] [--first SEED] [--seconds N]`. An operator in this process, simulated hosts
behind real SSH servers; the hosts go on from one history to the next. Exit code 1 where one fails; it is printed.
"""

import argparse
import asyncio
import logging
import random
import tempfile
import time
from pathlib import Path

import structlog
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import Cluster, admin
from tests.support.operator.histories import HOSTS, Histories
from tests.support.operator.kubelets import Kubelets

from transom.controllers.rollout import heartbeats
from transom.kube.resources import WINDOWS_INSTANCES
from transom.manifests.definitions import definitions
from winsim import Simulator

LONG = 150.0
"""Seconds after which a history that is not at its end says which hosts it waits for, and every minute from then on."""


async def run(runs: int, first: int, seconds: float) -> int:
    begun, failed, lived, longest = time.monotonic(), 0, 0, 0.0
    with ControlPlane() as plane, tempfile.TemporaryDirectory(prefix="transom-benchmark-") as directory:
        plane.define(definitions())
        async with admin(plane) as client, Simulator() as simulator:
            cluster = Cluster(plane, client, simulator)
            await cluster.prepare()
            kubelets = Kubelets(cluster)
            async with kubelets.running():
                histories = Histories(cluster, kubelets, Path(directory))
                # every kubelet reports, however long that takes here
                heartbeats.HEARTBEAT = 1200.0  # type: ignore[misc]
                await histories.begin()
                for seed in range(first, first + runs):
                    if time.monotonic() - begun > seconds:
                        break
                    lived += 1
                    slow = asyncio.create_task(tell_slow(seed, histories))
                    started = time.monotonic()
                    try:
                        await histories.live(random.Random(seed))
                    except AssertionError as wrong:
                        failed += 1
                        print(f"seed {seed}: {', '.join(histories.said)}: {wrong}", flush=True)
                        await tell(histories)
                    finally:
                        slow.cancel()
                    longest = max(longest, time.monotonic() - started)
            await cluster.leave()
    took = f"{time.monotonic() - begun:.0f} s, the longest in {longest:.0f} s"
    print(f"{lived} histories of {HOSTS} hosts through an API server in {took}: {failed} fail", flush=True)
    return int(failed > 0)


async def tell_slow(seed: int, histories: Histories) -> None:
    """Say where a history stands that lasts: a limit of time would be one of the machine's speed."""
    await asyncio.sleep(LONG)
    while True:
        print(f"seed {seed} goes on: {', '.join(histories.said)}", flush=True)
        await tell(histories)
        await asyncio.sleep(60)


async def tell(histories: Histories) -> None:
    """Which hosts are not Ready, and why."""
    for cached in (await histories.cluster.client.list_objects(WINDOWS_INSTANCES, histories.cluster.namespace)).items:
        said = cached.value["status"]["conditions"][0]
        if said["status"] != "True":
            changes = cached.value["status"].get("changes")
            print(f"  {cached.metadata.name}: {said['reason']}: {said['message']} ({changes})", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600.0)
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return asyncio.run(run(chosen.runs, chosen.first, chosen.seconds))


if __name__ == "__main__":
    raise SystemExit(main())
