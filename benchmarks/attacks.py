"""An ordinary user at work at every step of passes on simulated hosts: `python -m benchmarks.attacks [--runs N] [--unheeded]`.

With `--unheeded` the hosts do not heed their access lists, and he wins. Exit code 1 where that is not so, and where he wins
otherwise.
"""

import argparse
import asyncio
import collections
import multiprocessing
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.hosts.attacks import attacked

from winsim import Simulator

_AT_ONCE = 25
"""Runs that share a server."""


def several(seeds: Iterable[int], *, enforced: bool) -> list[tuple[int, set[str], list[str]]]:
    """What was reached in each run, and the kinds of errors of its passes."""

    async def one_by_one() -> list[tuple[int, set[str], list[str]]]:
        found = []
        async with Simulator() as simulator:
            for seed in seeds:
                with tempfile.TemporaryDirectory() as path:
                    won, passes = await attacked(simulator, seed, Path(path), enforced=enforced)
                found.append((seed, won, [type(made.error).__name__ for made in passes if made.error is not None]))
        return found

    return asyncio.run(one_by_one())


def part(arguments: tuple[int, int, bool]) -> list[tuple[int, set[str], list[str]]]:
    """`several` for a process of its own."""
    first, last, enforced = arguments
    return several(range(first, last), enforced=enforced)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--unheeded", action="store_true")
    arguments = parser.parse_args()
    begun = time.monotonic()
    parts = [
        (first, min(first + _AT_ONCE, arguments.runs), not arguments.unheeded) for first in range(0, arguments.runs, _AT_ONCE)
    ]
    with multiprocessing.get_context("spawn").Pool() as pool:
        runs = [run for found in pool.imap_unordered(part, parts) for run in found]
    won = sorted((seed, reached) for seed, reached, _ in runs if reached)
    errors = collections.Counter(name for _, _, names in runs for name in names)
    print(f"{len(runs)} runs in {time.monotonic() - begun:.0f} s: he won in {len(won)}; errors of passes: {dict(errors)}")
    for seed, reached in won[:5]:
        print(f"  seed {seed}: {', '.join(sorted(reached))}")
    return int(bool(won) != arguments.unheeded)


if __name__ == "__main__":
    raise SystemExit(main())
