"""Marks: what needs a server of ours (the simulated host) is not among the fast tests. Their order. Simulated hosts for all."""

import gc
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings
from tests.support.failures import Failures
from tests.support.schedule import Schedule, Worker, arrange, leave_servers

if TYPE_CHECKING:
    from winsim import Simulator

_WITH_SERVERS = ("apply", "hosts", "winsim", "webhook")
pytest_plugins = ("tests.support.operator.fixtures", "tests.support.management.fixtures")

# a machine with other work to do must not fail a property; a commit has the same examples each time, so that a landing is not
# refused for what another one brought. TRANSOM_RANDOM=1 draws others, and so do the benchmarks of histories
settings.register_profile("transom", deadline=None, derandomize=not {"TRANSOM_RANDOM", "TRANSOM_HISTORIES"} & set(os.environ))
settings.load_profile("transom")
# there is no public image: `transom manifests` wants one by name
os.environ.setdefault("TRANSOM_IMAGE", "registry.example/transom:0.1.0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--host", metavar="USER@ADDRESS[:PORT]", help="a Windows machine for the tests marked real, which they change"
    )
    parser.addoption("--host-key-file", type=Path, metavar="FILE", help="the private key that lets its administrator in")
    parser.addoption("--failures", type=Path, metavar="FILE", help="write the names of the tests that failed to FILE")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", default=None):
        # who collects: until it has, next to nothing is garbage
        gc.disable()
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Worker(config))
    else:
        config.pluginmanager.register(Schedule())
        if file := config.getoption("failures"):
            config.pluginmanager.register(Failures(file))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    if config.getoption("host") is None:
        items[:] = [item for item in items if item.get_closest_marker("real") is None]
    for item in items:
        serves = item.path.relative_to(here).parts[0] in _WITH_SERVERS or "simulator" in item.fixturenames
        if serves and item.get_closest_marker("lab") is None:
            item.add_marker("server")
    if hasattr(config, "workerinput"):
        arrange(items, config.workerinput)


def pytest_collection_finish() -> None:
    # what was imported and collected stays to the end: each collection of garbage would go through all of it
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    try:
        return (yield)
    finally:
        # without workers the tests are in the order of their files
        if hasattr(item.config, "workerinput"):
            leave_servers(item, nextitem)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A command that ran in this process has set logging up for itself: the tests after it would see nothing of theirs."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
async def simulator() -> "AsyncIterator[Simulator]":
    # not for tests without hosts: it brings asyncssh
    from winsim import Simulator

    async with Simulator() as running:
        yield running
