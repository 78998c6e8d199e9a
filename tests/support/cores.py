"""Which core a worker runs on, with all that it started: one at a time, and another where its core is busy and another idles.

A worker mostly waits for a process that it has started, or that for it. On one core a message costs a switch; to another core,
which sleeps, on a virtual machine ten times as much (`benchmarks/tests.md`). So the kernel may not choose, and what a worker
has started moves with it. A cgroup knows what that is (version 2, cgroups(7)): children are in it whatever their parents and
environment became. Where no cgroup can be made, workers stay where they began.

Each has a session of its own: the kernel gives each session that wants a core the same share of it (autogroups, sched(7)), and
what compiles beside the tests is one session; all workers were another.
"""

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

EVERY = 1.0
"""Seconds between two looks."""
APART = 0.3
"""Two cores are out of balance if their idle shares are that far apart."""
SLACK = 20_000_000
"""Nanoseconds by which a timer may be late (PR_SET_TIMERSLACK(2const)); 50,000 elsewhere.

Each program in Go has a thread that looks after the others every 20 µs while one works, for 1 ms, and then ever less often:
more than half of all switches while kube-apiserver answers (`benchmarks/tests.md`).
"""
GRACE = 5.0
"""Seconds in which what was started ends by itself once its worker has ended: with a killed runc its container would stay."""
_TICK = os.sysconf("SC_CLK_TCK")


def number_of(workerid: str) -> int:
    """Of `gw3` 3."""
    return int(workerid.removeprefix("gw"))


def first_core(workerid: str) -> int:
    """Where a worker begins: each on the next core."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[number_of(workerid) % len(cores)]


def group_of_run() -> Path | None:
    """A new cgroup for the workers of this run, below that of this process; None where it cannot be made."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    roots = [Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"]
    own = [line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    if not roots or not own:
        return None
    group = roots[0] / own[0].lstrip("/") / f"transom-tests-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        return None
    return group


def join(workerid: str, group: Path | None) -> None:
    """Keep this worker, and all that it will start, on one core, in a cgroup below that of the run where there is one.

    Their timers have `SLACK`. A terminal's Ctrl-C does not come here any more.
    """
    core = first_core(workerid)
    os.setsid()
    if group is not None:
        own = group / workerid
        own.mkdir()
        (own / "cgroup.procs").write_text("0")
    os.sched_setaffinity(0, {core})
    Path("/proc/self/timerslack_ns").write_text(str(SLACK))


def used(group: Path | None) -> float:
    """CPU seconds so far of all that a cgroup has and had; without one of this process and those that it waited for."""
    if group is None:
        return sum(os.times()[:4])
    return int((group / "cpu.stat").read_text().split()[1]) / 1e6


def move(idle: Mapping[int, float], shares: Mapping[str, float], cores: Mapping[str, int]) -> tuple[str, int] | None:
    """The worker to move and its new core; None where that helps nobody.

    `idle`: what share of the time each core idled. `shares`: what each worker used of a core. The one that
    evens them out best goes; who would make the other core as busy as its own stays.
    """
    busiest, idlest = min(idle, key=lambda core: idle[core]), max(idle, key=lambda core: idle[core])
    apart = idle[idlest] - idle[busiest]
    if apart < APART:
        return None
    there = [worker for worker, core in cores.items() if core == busiest and 0.05 < shares.get(worker, 0) < apart]
    if not there:
        return None
    return min(there, key=lambda worker: abs(shares[worker] - apart / 2)), idlest


@dataclass(frozen=True)
class Look:
    """Seconds: of the clock, that each core has idled, that each worker has used."""

    at: float
    idle: dict[int, float]
    used: dict[str, float]


class Balance(threading.Thread):
    """Moves workers while the tests run."""

    def __init__(self, group: Path) -> None:
        super().__init__(name="balance of cores", daemon=True)
        self.group = group
        self._ended = threading.Event()
        self.cores: dict[str, int] = {}
        self.moves = 0

    def end(self) -> None:
        """Stop, kill what outlives its worker for more than `GRACE`, and remove the cgroups."""
        self._ended.set()
        self.join()
        until = time.monotonic() + GRACE
        for own in [path for path in self.group.iterdir() if path.is_dir()]:
            while "populated 1" in (own / "cgroup.events").read_text():
                if time.monotonic() > until:
                    (own / "cgroup.kill").write_text("1")
                time.sleep(0.02)
            own.rmdir()
        self.group.rmdir()

    def send(self, worker: str, core: int) -> None:
        """Move a worker with all that it started."""
        # what is forked meanwhile begins where its parent was: it is there the second time
        for _ in range(2):
            for thread in (self.group / worker / "cgroup.threads").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), {core})
        self.cores[worker] = core
        self.moves += 1

    def run(self) -> None:
        before = self._look()
        while not self._ended.wait(EVERY):
            now = self._look()
            if chosen := self.chosen(before, now):
                self.send(*chosen)
            before = now

    def chosen(self, before: Look, now: Look) -> tuple[str, int] | None:
        """The worker to move and its new core, by two looks; None where that helps nobody."""
        passed = now.at - before.at
        for worker in now.used:
            self.cores.setdefault(worker, first_core(worker))
        shares = {worker: (now.used[worker] - used) / passed for worker, used in before.used.items()}
        idle = {core: (idle - before.idle[core]) / passed for core, idle in now.idle.items()}
        return move(idle, shares, self.cores)

    def _look(self) -> Look:
        return Look(time.monotonic(), _idle(), {own.name: used(own) for own in self.group.iterdir() if own.is_dir()})


def _idle() -> dict[int, float]:
    """Seconds that each core of ours has idled, waiting for disks included (proc(5))."""
    lines = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")]
    cores = {int(row[0][3:]): (int(row[4]) + int(row[5])) / _TICK for row in lines if row[0] != "cpu"}
    return {core: cores[core] for core in os.sched_getaffinity(0)}
