"""`transom run` with a host for each Node, by simulation: `python -m benchmarks.ten_thousand [--hosts 1000 2500 5000 10000]`.

Each size has an API server, an operator and a process with all its hosts, which takes 42 kB for each at first. CPU and memory
are the operator's process alone, and "bare" is an asyncssh loop in this one over some of the hosts: two commands and a file of
8 kB. What of a figure grows with the number of hosts, and is told for each host, is not linear. With `--profile DIRECTORY`
py-spy looks at the operator during the change, and writes a file for each size.
"""

import argparse
import asyncio
import contextlib
import logging
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import asyncssh
import msgspec
import structlog
from benchmarks.hosts import bare_change
from benchmarks.operator_scale import (
    EGRESS_PROXIES,
    NAMESPACE,
    Hosts,
    Operator,
    Secret,
    beating,
    hosts,
    over_all,
    prepare,
    put_proxy,
    say,
    total,
    until,
)
from benchmarks.pairs import cpu_of_process
from lab.control_plane import ControlPlane
from lab.ports import reserve

from transom.hosts.ssh import Access
from transom.kube import ApiError
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.resources import CONFIG_MAPS
from transom.windows.nodes.rollout import ROLLOUTS

SIZES = (1_000, 2_500, 5_000, 10_000)
SETTLE = 30.0
"""Seconds that pass before the operator's memory is looked at, and in which it is seen what it takes with nothing to do."""
SCRAPE = 30.0
"""Seconds between two scrapes (Prometheus scrapes each minute unless told otherwise)."""
LONGEST = 7200.0
BARE = 250


class Figures(msgspec.Struct):
    """What one size took: seconds, MB, and milliseconds of CPU a host where it says so."""

    hosts: int
    start: float
    first: float
    first_wall: float
    change: float
    bare: float
    change_wall: float
    requests: float
    idle: float
    """Milliseconds of CPU in a second with nothing to do but the hosts' heartbeats."""
    rss: float
    rss_change: float
    again: float
    """Seconds of CPU until it is ready once more, with everything done."""
    scrape: float
    scrape_bytes: int
    note: int
    """Bytes of the ConfigMap of the hosts that were begun, at its longest."""


async def updated(client: Client, count: int, settings: str) -> str:
    """The hash of the settings that so many hosts have, where it is another one than before; else empty."""
    status = (await client.get(EGRESS_PROXIES, "cluster")).value.get("status") or {}
    hosts = status.get("hosts") or {}
    found = str(status.get("settings") or "")
    return found if hosts.get("updated") == count and found != settings else ""


async def rolled_out(client: Client, count: int, settings: str) -> str:
    """Wait for that; the hash of the settings then."""
    found = ""

    async def looked() -> bool:
        nonlocal found
        # a server that is busy is asked again
        with contextlib.suppress(ApiError):
            found = await updated(client, count, settings)
        return bool(found)

    await until(looked, LONGEST)
    return found


@contextlib.asynccontextmanager
async def watched(operator: Operator, client: Client) -> AsyncIterator[list[int]]:
    """Somebody scrapes the operator, and looks how long the ConfigMap of the hosts that were begun is: the lengths."""
    lengths = [0]

    async def scrape() -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                await operator.metrics()
            await asyncio.sleep(SCRAPE)

    async def look() -> None:
        while True:
            with contextlib.suppress(ApiError):
                found = await client.get(CONFIG_MAPS, ROLLOUTS, NAMESPACE)
                lengths.append(sum(map(len, (found.value.get("data") or {}).values())))
            await asyncio.sleep(1)

    tasks = [asyncio.create_task(one) for one in (scrape(), look())]
    try:
        yield lengths
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def asked(operator: Operator) -> float:
    """Requests of the operator so far: watches and the lease among them, what is not there left out."""
    text = await operator.metrics()
    name = "transom_api_requests_total"
    return total(text, name) - total(text, f'{name}{{code="404"}}')


async def measure(plane: ControlPlane, client: Client, found: Hosts, profile: Path | None) -> Figures:
    count = len(found.ports)
    begun = time.perf_counter()
    await prepare(plane, client, found.key, found.ports, count)
    say(f"{count} hosts: made in {time.perf_counter() - begun:.0f} s")
    await asyncio.to_thread(plane.compact)
    bare = await bare_loop(found)
    operator = Operator(plane, reserve("127.0.0.1"), "egress,hosts")
    try:
        async with beating(client, found, count), watched(operator, client) as lengths:
            start, first, first_wall, settings = await first_apply(operator, client, count)
            await asyncio.sleep(SETTLE)
            # without it etcd is full of ten thousand hosts, thirty times; the API server mostly does so each five minutes
            await asyncio.to_thread(plane.compact)
            rss = operator.rss()
            idle, pause = await rates(operator)
            cpu, since, requests = cpu_of_process(operator.pid), time.perf_counter(), await asked(operator)
            looking = spying(operator, profile / f"{count}.txt") if profile is not None else None
            await put_proxy(client, "http://second.example:3128")
            await rolled_out(client, count, settings)
            wall = time.perf_counter() - since
            used = cpu_of_process(operator.pid) - cpu - idle * wall
            more = await asked(operator) - requests - pause * wall
            if looking is not None:
                looking.send_signal(signal.SIGINT)
                looking.wait(60)
            await asyncio.sleep(SETTLE)
            begun, text = time.perf_counter(), await operator.metrics()
            scrape = time.perf_counter() - begun
            rss_change = operator.rss()
            operator.stop()
            operator.start("30m")
            await until(operator.ready, LONGEST, every=0.02)
            again = cpu_of_process(operator.pid)
    finally:
        operator.stop()
    bare = (bare + await bare_loop(found)) / 2
    return Figures(
        hosts=count,
        start=start,
        first=first / count * 1000,
        first_wall=first_wall,
        change=used / count * 1000,
        bare=bare * 1000,
        change_wall=wall,
        requests=more / count,
        idle=idle * 1000,
        rss=rss,
        rss_change=rss_change,
        again=again,
        scrape=scrape,
        scrape_bytes=len(text),
        note=max(lengths),
    )


async def first_apply(operator: Operator, client: Client, count: int) -> tuple[float, float, float, str]:
    """Seconds of CPU until it is ready, and until all hosts are done; seconds on the clock; the hash of the settings."""
    begun = time.perf_counter()
    operator.start("2h")
    await until(operator.ready, LONGEST, every=0.02)
    start = cpu_of_process(operator.pid)
    settings = await rolled_out(client, count, "")
    return start, cpu_of_process(operator.pid), time.perf_counter() - begun, settings


async def rates(operator: Operator) -> tuple[float, float]:
    """Seconds of CPU, and requests, in a second with nothing to do."""
    cpu, requests, begun = cpu_of_process(operator.pid), await asked(operator), time.perf_counter()
    await asyncio.sleep(SETTLE)
    took = time.perf_counter() - begun
    return (cpu_of_process(operator.pid) - cpu) / took, (await asked(operator) - requests) / took


async def bare_loop(found: Hosts) -> float:
    """Seconds of CPU for one host."""
    private = asyncssh.import_private_key(found.key)
    accesses = [Access("127.0.0.1", port, keys=(Secret(found.key),)) for port in found.ports[:BARE]]
    return (await over_all(accesses, lambda access: bare_change(access, private))).cpu / len(accesses)


def spying(operator: Operator, profile: Path) -> "subprocess.Popen[bytes]":
    """py-spy, which writes what it saw when it is ended."""
    command = ["py-spy", "record", f"--pid={operator.pid}", "--rate=50", "--format=raw", "--function", f"--output={profile}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def table(found: Sequence[Figures]) -> str:
    rows = (
        ("start: s of CPU", "start", ".1f"),
        ("the same with all done", "again", ".1f"),
        ("a first apply: ms of CPU a host", "first", ".1f"),
        ("its wall: s", "first_wall", ".0f"),
        ("a change: ms of CPU a host, without what that time takes anyway", "change", ".1f"),
        ("bare: ms of CPU a host", "bare", ".1f"),
        ("requests a host", "requests", ".2f"),
        ("wall: s", "change_wall", ".0f"),
        ("RSS, all done: MB", "rss", ".0f"),
        ("RSS after the change: MB", "rss_change", ".0f"),
        ("nothing to do: ms of CPU a second", "idle", ".1f"),
        ("a scrape: s", "scrape", ".3f"),
        ("its bytes", "scrape_bytes", ",d"),
        ("transom-rollouts at its longest: bytes", "note", ",d"),
    )
    lines = ["| hosts | " + " | ".join(f"{one.hosts:,d}" for one in found) + " |", "|---" * (len(found) + 1) + "|"]
    lines += [
        f"| {label} | " + " | ".join(format(getattr(one, name), how) for one in found) + " |" for label, name, how in rows
    ]
    return "\n".join(lines)


async def one_size(count: int, profile: Path | None) -> Figures:
    with tempfile.TemporaryDirectory(prefix="transom-benchmark-") as directory, ControlPlane(Path(directory)) as plane:
        async with hosts(count) as found:
            connection = connect(str(plane.kubeconfig))
            try:
                return await measure(plane, Client(connection), found, profile)
            finally:
                await connection.close()
                say((plane.directory / "operator.log").read_text()[-300:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, nargs="+", default=SIZES)
    parser.add_argument("--profile", type=Path)
    chosen = parser.parse_args()
    # this process is what the operator is compared with
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    measured = []
    for count in chosen.hosts:
        measured.append(asyncio.run(one_size(count, chosen.profile)))
        say(table(measured))


if __name__ == "__main__":
    main()
