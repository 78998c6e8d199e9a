"""Whatever comes in at an entry point, the event loop, the memory and the neighbours are left in peace."""

import textwrap
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.entry_points.doors import find_doors
from tests.entry_points.entry_point import EntryPoint, find_excess, measure_entry_point
from tests.entry_points.table import ENTRY_POINTS
from tests.entry_points.trusted import TRUSTED
from tests.kube.test_bounds import FOLLOWED

from transom.kube.errors import ApiError
from transom.kube.memory_limits import MemoryLimit
from transom.kube.transport import TransportLimits

ROWS = {row.name: row for row in ENTRY_POINTS}


@pytest.mark.parametrize("row", ENTRY_POINTS, ids=lambda row: row.name)
async def test_each_entry_point_keeps_its_bounds(row: EntryPoint, tmp_path: Path) -> None:
    await check_row(row, tmp_path, *row.inputs)


async def check_row(row: EntryPoint, directory: Path, *inputs: str) -> None:
    """Fail if a row does not keep its bounds, takes an input for a good one, or leaves its neighbour waiting."""
    assert find_excess(row, await measure_entry_point(row, directory, inputs)) == []


def test_every_place_where_bytes_enter_has_a_row() -> None:
    """A new one needs a row in the table, or a reason in `trusted.py` why what it reads is nobody else's."""
    places = {door.place for door in find_doors()}
    rows = [place for row in ENTRY_POINTS for place in row.enters_by if place not in FOLLOWED]
    assert places - {*rows, *TRUSTED} == set()
    assert {*rows, *TRUSTED} - places == set()
    assert set(rows) & TRUSTED.keys() == set()
    assert len(ROWS) == len(ENTRY_POINTS)


def test_every_kind_that_is_followed_has_a_row() -> None:
    assert {place for row in ENTRY_POINTS for place in row.enters_by} >= FOLLOWED.keys()


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio\nasync def serve():\n    await asyncio.start_server(print, '', 1)",
        "from asyncio import open_connection as dial\nasync def serve():\n    await dial('x', 1)",
        "import asyncssh\nasync def serve():\n    async with asyncssh.connect('x'): pass",
        "from aiohttp import web\ndef serve():\n    return web.Server(print)",
        "from transom.common.regular_files import read_regular_file\ndef serve(path):\n    return read_regular_file(path)",
        "from transom.common.archives import open_member\ndef serve(path):\n    return open_member(path, 'x', is_zip=True)",
        "def serve(path):\n    return path.read_bytes()",
        "def serve(path):\n    with open(path) as file:\n        return file.read()",
        "import gzip\ndef serve(data):\n    return [gzip.decompress(one) for one in data]",
        "import sys\ndef serve():\n    return sys.stdin.buffer.read()",
    ],
)
def test_a_new_place_is_found(source: str, tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(textwrap.dedent(source))
    assert [door.place for door in find_doors(tmp_path)] == ["new.py serve()"]


REMOVED: dict[str, tuple[str, Mapping[str, Any], tuple[str, ...]]] = {
    "the algorithms of SSH": (
        "SSH before the login",
        {"transom.hosts.ssh.algorithms.KEY_EXCHANGES": ("diffie-hellman-group-exchange-sha256",)},
        ("slow group of 4096 bits",),
    ),
    "the memory of a kind": (
        "kind namespaces. Metadata",
        {"transom.kube.memory_limits.BOUNDS": defaultdict(lambda: MemoryLimit(1 << 40, 1 << 40))},
        ("labels", "annotations", "owners", "long-texts"),
    ),
    "the size of a foreign answer": (
        "API servers of workload clusters",
        {"transom.kube.connection.FOREIGN": TransportLimits(connections=2)},
        ("compressed",),
    ),
    "the items of a pod": (
        "the admission port",
        {"transom.pods.pod_size.MAX_CONTAINERS": 1 << 40, "transom.webhook.review.MAX_VALUES": 1 << 40},
        ("many containers in 0.7 MB",),
    ),
    "the size of a bundle": (
        "bundles of CAs",
        {"transom.proxy.trust.MAX_BUNDLE": 1 << 40},
        ("a million blocks",),
    ),
}
"""By the bound that is taken away: the row, the constants with what is put in their place, and inputs of the row."""


@pytest.mark.parametrize("removed", REMOVED)
async def test_a_row_fails_without_one_of_its_bounds(removed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, constants, worst = REMOVED[removed]
    (tmp_path / "with").mkdir()
    await check_row(ROWS[name], tmp_path / "with", *worst)
    for constant, value in constants.items():
        monkeypatch.setattr(constant, value)
    (tmp_path / "without").mkdir()
    # what the input does, or that the neighbour waits in vain meanwhile
    with pytest.raises((AssertionError, ApiError)):
        await check_row(ROWS[name], tmp_path / "without", *worst)
