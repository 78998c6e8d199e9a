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

from transom.kube.resources import WINDOWS_INSTANCES
from transom.manifests.definitions import definitions
from transom.simulator import Simulator


async def run(runs: int, first: int, seconds: float) -> int:
    begun, failed, lived = time.monotonic(), 0, 0
    with ControlPlane() as plane, tempfile.TemporaryDirectory(prefix="transom-benchmark-") as directory:
        plane.define(definitions())
        async with admin(plane) as client, Simulator() as simulator:
            cluster = Cluster(plane, client, simulator)
            await cluster.prepare()
            kubelets = Kubelets(cluster)
            async with kubelets.running():
                histories = Histories(cluster, kubelets, Path(directory))
                await histories.begin()
                for seed in range(first, first + runs):
                    if time.monotonic() - begun > seconds:
                        break
                    lived += 1
                    try:
                        await histories.live(random.Random(seed))
                    except AssertionError as wrong:
                        failed += 1
                        print(f"seed {seed}: {', '.join(histories.said)}: {wrong}", flush=True)
                        for held in (await client.list_objects(WINDOWS_INSTANCES, cluster.namespace)).items:
                            said = held.value["status"]["conditions"][0]
                            if said["status"] != "True":
                                changes = held.value["status"].get("changes")
                                print(f"  {held.metadata.name}: {said['reason']}: {said['message']} ({changes})", flush=True)
            await cluster.leave()
    print(f"{lived} histories of {HOSTS} hosts through an API server in {time.monotonic() - begun:.0f} s: {failed} fail")
    return int(failed > 0)


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
