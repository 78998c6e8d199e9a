"""Marks: what needs a server of ours (the simulated host) is not among the fast tests. And simulated hosts for all."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from transom.simulator import Simulator

_WITH_SERVERS = ("apply", "hosts", "simulator", "operator", "webhook")

# a machine with other work to do must not fail a property
settings.register_profile("transom", deadline=None)
settings.load_profile("transom")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in _WITH_SERVERS and item.get_closest_marker("lab") is None:
            item.add_marker("server")


@pytest.fixture
async def simulator() -> "AsyncIterator[Simulator]":
    # not for tests without hosts: it brings asyncssh
    from transom.simulator import Simulator

    async with Simulator() as running:
        yield running
