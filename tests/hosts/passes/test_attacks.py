"""An ordinary user of a host, at work at every step of a pass: nothing of his is run or read, and nothing of ours is shown.

`python -m benchmarks.attacks` makes a thousand runs.
"""

import asyncio
from pathlib import Path

import pytest
from tests.hosts.attacks import attacked

from transom.hosts.errors import DirectoryNotOurs
from winsim import Simulator

SEEDS = range(24)


@pytest.mark.parametrize("seed", SEEDS)
async def test_he_does_not_win(simulator: Simulator, tmp_path: Path, seed: int) -> None:
    won, passes = await attacked(simulator, seed, tmp_path)
    assert won == set()
    # what he can do is to be first where a payload wants a directory: that is said, and nothing is placed there
    assert all(made.error is None or isinstance(made.error, DirectoryNotOurs) for made in passes), passes


@pytest.mark.usefixtures("soon_again")
async def test_where_access_lists_are_not_heeded_he_wins(simulator: Simulator, tmp_path: Path) -> None:
    """In one run or another he reaches each thing that the lists keep from him; in which one, the order of steps decides."""
    parts = {"run", "read ", "deleted", "read as Transom's"}
    for first in range(0, 192, 16):
        # a pass that he has stopped waits for its scripts in vain: side by side they wait once
        for won, _ in await asyncio.gather(
            *(attacked(simulator, seed, tmp_path / str(seed), enforced=False) for seed in range(first, first + 16))
        ):
            parts -= {part for part in parts if any(part in word for word in won)}
        if not parts:
            return
    raise AssertionError(f"never reached: {parts}")
