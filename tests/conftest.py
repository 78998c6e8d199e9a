"""Marks, groups and order of tests; the simulated host."""

import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings
from tests.support.failures import Failures
from tests.support.groups import RunDirectory, add_groups, order_key, register_worker, stop_servers
from tests.support.progress import ShortProgress

if TYPE_CHECKING:
    from winsim import Simulator

_WITH_SERVERS = ("apply", "hosts", "winsim", "webhook")
pytest_plugins = ("tests.support.operator.fixtures", "tests.support.management.fixtures", "tests.support.programs")

# a machine with other work to do must not fail a property; a commit has the same examples each time, so that a landing is not
# refused for what another one brought. TRANSOM_RANDOM=1 draws others, and so do the benchmarks of histories
settings.register_profile("transom", deadline=None, derandomize=not {"TRANSOM_RANDOM", "TRANSOM_HISTORIES"} & set(os.environ))
settings.load_profile("transom")
# there is no public image: `transom manifests` wants one by name
os.environ.setdefault("TRANSOM_IMAGE", "registry.example/transom:0.1.0")

_LONGEST_ID = 200
"""Characters of a parameter in the name of a test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--host", metavar="USER@ADDRESS[:PORT]", help="a Windows machine for the tests marked real, which they change"
    )
    parser.addoption("--host-key-file", type=Path, metavar="FILE", help="the private key that lets its administrator in")
    parser.addoption("--short-progress", action="store_true", help="print how far the run is in one line")
    parser.addoption("--failures", type=Path, metavar="FILE", help="write the names of the tests that failed to FILE")


def pytest_configure(config: pytest.Config) -> None:
    # a shell starts its background jobs with Ctrl-C ignored, and so would every program that a test stops with it
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # nohup ignores SIGHUP: the workers go on ignoring it, and what they start begins with the default
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN and not config.getoption("numprocesses", None):
        signal.signal(signal.SIGHUP, lambda *_: None)
    if hasattr(config, "workerinput"):
        register_worker(config)
    else:
        config.pluginmanager.register(RunDirectory())
        if config.getoption("short_progress"):
            config.pluginmanager.register(ShortProgress(config))
        if file := config.getoption("failures"):
            config.pluginmanager.register(Failures(file))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a long text by its argument: keys and certificates are made anew by each worker, and names must be the same."""
    return argname if isinstance(val, str | bytes) and len(val) > _LONGEST_ID else None


# before xdist, which adds the group to the name of a test
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    if config.getoption("host") is None:
        items[:] = [item for item in items if item.get_closest_marker("real") is None]
    for item in items:
        serves = item.path.relative_to(here).parts[0] in _WITH_SERVERS or "simulator" in item.fixturenames
        if serves and item.get_closest_marker("lab") is None:
            item.add_marker("server")
    items.sort(key=order_key)
    add_groups(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    try:
        return (yield)
    finally:
        # without workers the tests are in the order of their files
        if hasattr(item.config, "workerinput"):
            stop_servers(item, nextitem)


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
