"""Two pieces of work beside each other, in turns: `python -m benchmarks.pairs PROGRAM FILE` writes those of a program.

A program that has ratios which are kept (`ratios.yaml`) has a function `pairs`, which gives them in a short form.
"""

import importlib
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent
TRANSOM = (sys.executable, "-m", "transom")


class Pair(msgspec.Struct, frozen=True):
    """What both took, in one unit: seconds of CPU, or bytes. `row` is the name of the ratio."""

    row: str
    ours: float
    bare: float


def alternating(row: str, ours: Callable[[], float], bare: Callable[[], float], *, rounds: int = 5) -> Iterator[Pair]:
    """So many pairs: whatever else the machine does hits both of each alike. Who begins changes."""
    for number in range(rounds):
        if number % 2:
            reference = bare()
            yield Pair(row, ours(), reference)
        else:
            yield Pair(row, ours(), bare())


def cpu_of(work: Callable[[], object]) -> float:
    """Seconds of CPU of this process."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def cpu_of_child(command: Sequence[str], *, times: int = 1, codes: tuple[int, ...] = (0,), **environment: str) -> float:
    """Seconds of CPU of a program that is run so often. Raises SystemExit where it ends otherwise than it should."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(times):
        done = subprocess.run(
            command, env={**os.environ, **environment}, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
        if done.returncode not in codes:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cpu_of_process(pid: int) -> float:
    """Seconds of CPU so far of all threads of a process that runs (proc(5): /proc/PID/task/TID/schedstat, in nanoseconds)."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def rss_of_process(pid: int) -> int:
    """Bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    made: Iterator[Pair] = importlib.import_module(f"benchmarks.{sys.argv[1]}").pairs()
    with Path(sys.argv[2]).open("wb") as file:
        file.writelines(msgspec.json.encode(pair) + b"\n" for pair in made)


if __name__ == "__main__":
    main()
