"""How tests are spread over the workers of pytest-xdist (`--dist loadgroup`), and the temporary directory of a run."""

import contextlib
import os
import shutil
import signal
import tempfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from lab.claim import claim
from xdist.workermanage import NodeManager

from lab import network

SERVERS: Mapping[str, int] = {"control_plane": 6, "management_plane": 4, "management": 4, "machine": 4}
"""Fixtures of the session that take seconds to start, and over how many groups the files that use each are spread."""
CLEANUP_SECONDS = 60
"""What workers have after Ctrl-C to end what their tests began; xdist gives them 10 s, too few for some stories."""
_PREFIX = "transom-tests-"


def add_groups(items: Sequence[pytest.Item]) -> None:
    """Give each test its group: the files that share a server, or its file. What needs real parts comes first."""
    for item in items:
        file = item.nodeid.partition("::")[0]
        servers = [name for name, _ in iter_servers(item)]
        group = f"{servers[0]} {zlib.crc32(file.encode()) % SERVERS[servers[0]]}" if servers else file
        item.add_marker(pytest.mark.xdist_group(group))


def order_key(item: pytest.Item) -> tuple[bool, bool]:
    """Return the sort key that puts the longest tests first: stories, then the others with real parts."""
    return "stories/" not in item.nodeid, item.get_closest_marker("lab") is None


def stop_servers(item: pytest.Item, following: pytest.Item | None) -> None:
    """Stop the servers of a test that the following test does not use.

    pytest keeps them to the end of the session, and an idle control plane uses a fiftieth of a core.
    """
    kept = {id(server) for _, server in iter_servers(following)} if following else set()
    for _, server in iter_servers(item):
        if id(server) not in kept:
            server.finish(item._request)  # type: ignore[attr-defined]


def iter_servers(item: pytest.Item) -> Iterable[tuple[str, Any]]:
    """Yield the servers that a test uses, directly or not, by the names of their fixtures."""
    definitions = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    for name in SERVERS:
        if definitions.get(name) and definitions[name][-1].scope == "session":
            yield name, definitions[name][-1]


class RunDirectory:
    """A plugin of the controller: what workers and their tests put into TMPDIR goes with the run, also after Ctrl-C."""

    def __init__(self) -> None:
        NodeManager.EXIT_TIMEOUT = CLEANUP_SECONDS
        place = Path(tempfile.gettempdir())
        self._directory, self._lock = claim(place, _PREFIX, f"{_PREFIX}*")
        # squid and others drop root's privileges
        self._directory.chmod(0o711)
        # pytest keeps the directories of `tmp_path` for people
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place))
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._directory)
        self._terminal: pytest.TerminalReporter | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        self._terminal = node.config.pluginmanager.get_plugin("terminalreporter")
        node.workerinput["run_directory"] = str(self._directory)

    def pytest_keyboard_interrupt(self) -> None:
        if self._terminal:
            self._terminal.write_line(f"stopping what tests started, within {CLEANUP_SECONDS} s; press Ctrl-C again to kill it")
        for file in self._directory.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGINT)

    def pytest_unconfigure(self) -> None:
        network.remove_stale_networks()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._lock.close()


def register_worker(config: pytest.Config) -> None:
    """Leave the session of the terminal, whose Ctrl-C the controller passes on."""
    os.setsid()
    workerinput: Mapping[str, Any] = config.workerinput  # type: ignore[attr-defined]
    Path(workerinput["run_directory"], f"{workerinput['workerid']}.pid").write_text(str(os.getpid()))
