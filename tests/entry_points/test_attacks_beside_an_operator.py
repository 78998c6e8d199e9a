"""While strangers attack, the operator keeps its lease, honest hosts and pods are served, and no memory is lost."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from lab.control_plane import ControlPlane
from tests.entry_points.attacks_on_programs import ATTACKS, LYING
from tests.entry_points.entry_point import MIB
from tests.entry_points.scene import Scene, open_scene
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.asyncio(loop_scope="module")]
RETAINED = 48 * MIB
"""Bytes by which a program may have grown after a kind of attack."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(management_plane: ControlPlane) -> AsyncIterator[Scene]:
    found = management_plane.read_revision()
    async with open_scene(management_plane, LYING) as opened:
        yield opened
    management_plane.restore(found)


@pytest.mark.parametrize("kind", ATTACKS)
async def test_attacks_of_a_kind_stop_nobody(scene: Scene, kind: str) -> None:
    """All variants at once, again and again, until the neighbours were served and the lease was renewed meanwhile."""
    lease, memory = await scene.read_lease(), scene.read_memory()
    began = scene.cluster.control_plane.get_moment()
    is_enough = asyncio.Event()

    async def repeat(name: str) -> None:
        while True:
            await ATTACKS[kind][name](scene)
            if is_enough.is_set():
                return

    async def is_renewed() -> bool:
        return (await scene.read_lease()).renewed != lease.renewed

    async with asyncio.TaskGroup() as attacks:
        for name in ATTACKS[kind]:
            attacks.create_task(repeat(name), name=name)
        for _ in range(2):
            await scene.serve_neighbours()
        await until(is_renewed)
        is_enough.set()
    await scene.serve_neighbours()
    assert scene.list_faults() == []
    assert scene.list_odd_requests(began) == []
    after = await scene.read_lease()
    assert (after.holder, after.transitions) == (lease.holder, lease.transitions)
    grown = {name: size - memory[name] for name, size in scene.read_memory().items()}
    assert {name: size for name, size in grown.items() if size > RETAINED} == {}
