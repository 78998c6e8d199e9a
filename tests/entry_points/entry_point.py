"""An entry point: a place where bytes of others enter, its worst inputs and its bounds; and how one is measured."""

import asyncio
import ctypes
import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.event_loop import measure_cost, read_memory
from tests.support.waiting import PATIENCE

MIB: Final = 1 << 20
_trim_memory: Final = ctypes.CDLL(None).malloc_trim


class Bench(ABC):
    """A running entry point, and somebody beside the attackers whom it serves."""

    @abstractmethod
    async def attack(self, name: str) -> None:
        """Feed one of the worst inputs. Raises AssertionError where it is taken for something good."""

    @abstractmethod
    async def serve_neighbour(self) -> None:
        """Serve the honest neighbour once. Raises where it is not served."""

    def count_retained(self) -> int | None:
        """Return the bytes that the attacks left behind, where the bench knows better than the process."""
        return None


OpenBench = Callable[[Path, tuple[str, ...]], AbstractAsyncContextManager[Bench]]
"""Opens a bench with a directory of its own, for inputs of these names."""


@dataclass(frozen=True)
class EntryPoint:
    """One row of the table."""

    name: str
    enters_by: tuple[str, ...]
    """The functions that take the bytes in, as `find_doors` names them; kinds, as `list_followed` names them."""
    inputs: tuple[str, ...]
    """The names of its worst inputs, which `bench` knows."""
    bench: OpenBench
    growth: int
    """Bytes by which the process may grow while all of the inputs come."""
    retained: int
    """Bytes that may be left of all of them."""
    seconds: float = 1.0
    """CPU seconds that a callback of the event loop may take."""
    at_once: int = 1
    """Inputs that come at the same time."""


@dataclass(frozen=True)
class Outcome:
    """What an entry point cost: seconds of the longest callback, bytes at the peak, and bytes afterwards."""

    seconds: float
    callback: str
    growth: int
    retained: int


async def measure_entry_point(row: EntryPoint, directory: Path, inputs: Iterable[str] | None = None) -> Outcome:
    """Feed the inputs of a row, all of them unless some are named, and serve the neighbour meanwhile."""
    names = row.inputs if inputs is None else tuple(inputs)
    slots = asyncio.Semaphore(row.at_once)

    async def attack(bench: Bench, name: str) -> None:
        async with slots:
            try:
                await bench.attack(name)
            except Exception as error:
                error.add_note(f"input: {name}")
                raise

    async with row.bench(directory, names) as bench:
        await bench.serve_neighbour()
        release_memory()
        before = read_memory("VmRSS")
        with measure_cost() as cost:
            attacks = asyncio.gather(*(attack(bench, name) for name in names))
            try:
                while True:
                    ended = attacks.done()
                    async with asyncio.timeout(PATIENCE):
                        await bench.serve_neighbour()
                    if ended:
                        break
                    await asyncio.sleep(0.05)
            finally:
                await attacks
        release_memory()
        retained = bench.count_retained()
        if retained is None:
            retained = max(0, read_memory("VmRSS") - before)
    return Outcome(cost.longest, cost.callback, cost.growth, retained)


def find_excess(row: EntryPoint, outcome: Outcome) -> list[str]:
    """Return the bounds of the row that were not kept, each with what came instead."""
    excess = []
    if outcome.seconds > row.seconds:
        excess.append(f"a callback took {outcome.seconds:.2f} s: {outcome.callback}")
    if outcome.growth > row.growth:
        excess.append(f"the process grew by {outcome.growth / MIB:.0f} MiB")
    if outcome.retained > row.retained:
        excess.append(f"{outcome.retained / MIB:.1f} MiB are left")
    return excess


def release_memory() -> None:
    """Give back to the system what the process does not use any more."""
    gc.collect()
    _trim_memory(0)
