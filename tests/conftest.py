"""Marks: what needs a server of ours (the simulated host) is not among the fast tests."""

from pathlib import Path

import pytest

_WITH_SERVERS = ("apply", "hosts", "simulator", "operator", "webhook")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in _WITH_SERVERS and item.get_closest_marker("lab") is None:
            item.add_marker("server")
