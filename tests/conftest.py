"""Marks: what needs a server of ours (the simulated host) is not among the fast tests."""

from pathlib import Path

import pytest
from hypothesis import settings

_WITH_SERVERS = ("apply", "hosts", "simulator", "operator", "webhook")

# a machine with other work to do must not fail a property
settings.register_profile("transom", deadline=None)
settings.load_profile("transom")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in _WITH_SERVERS and item.get_closest_marker("lab") is None:
            item.add_marker("server")
