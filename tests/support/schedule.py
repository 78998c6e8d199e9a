"""Which worker runs which tests, and in which order: what shares a server on one worker, the longest first.

How long each test took last time is kept in the lab's cache; without that a guess does. pytest-xdist sends whole groups to
workers; a worker gets its next group when the last test of its group begins, so a short test ends each long group.
"""

import json
import math
import os
import random
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lab.control_plane import ControlPlane
from xdist.scheduler import LoadScopeScheduling

from lab import cache

SERVERS = ("control_plane", "management_plane", "management", "machine")
"""Fixtures of the session that cost seconds of CPU to start."""
LONG = 20.0
"""Seconds: a test of that length may go to another worker than its file."""
SHORT = 1.0
GUESS, GUESS_LAB = 0.1, 3.0
_DURATIONS = "durations.json"
_CONTROL_PLANES = "control_planes"


@dataclass(frozen=True)
class Planned:
    """A test as far as its place in the order goes."""

    name: str
    file: str
    seconds: float
    server: str = ""
    """The server's fixture, with the directory that defines it."""
    shares: bool = False
    """Whether it uses another fixture of its module."""
    waits: bool = False
    """Whether it has real parts beside it, and waits for them most of the time."""


@dataclass
class Group:
    """Tests that one worker runs one after the other."""

    name: str
    tests: list[Planned] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return sum(test.seconds for test in self.tests)

    @property
    def computes(self) -> bool:
        """Whether its tests need a core most of the time."""
        return sum(test.seconds for test in self.tests if not test.waits) > self.seconds / 2


def plan(tests: Sequence[Planned], workers: int) -> list[Group]:
    """Groups in the order in which workers get them. Tests of a file stay in their order, but for long ones of their own."""
    groups: dict[str, Group] = {}
    for test in tests:
        alone = test.seconds >= LONG and not test.server and not test.shares
        name = test.server or (test.name if alone else test.file)
        groups.setdefault(name, Group(name)).tests.append(test)
    limit = max(LONG, sum(test.seconds for test in tests) / workers / 2)
    parts = [part for group in groups.values() for part in _divided(group, limit)]
    long = [group for group in parts if group.seconds >= LONG]
    short = sorted((group for group in parts if group.seconds < SHORT), key=lambda group: group.seconds)
    for group in long:
        end = next((one for one in short if one.tests[0].file != group.tests[0].file), None)
        if end:
            short.remove(end)
            group.tests += end.tests
    kept = [*long, *short, *(group for group in parts if SHORT <= group.seconds < LONG)]
    return sorted(kept, key=lambda group: (-group.seconds, group.name))


def drawn(tests: Sequence[Planned], seed: str) -> list[Planned]:
    """The files of a group in another order: what their tests leave on a server to those after them shows."""
    files: dict[str, list[Planned]] = defaultdict(list)
    for test in tests:
        files[test.file].append(test)
    shuffled = random.Random(seed).sample(list(files.values()), len(files))
    return [test for file in shuffled for test in file]


def _divided(group: Group, limit: float) -> list[Group]:
    """A group as parts of about the limit, by whole files, long files first."""
    files: dict[str, Group] = defaultdict(lambda: Group(group.name))
    for test in group.tests:
        files[test.file].tests.append(test)
    count = min(len(files), math.ceil(group.seconds / limit))
    parts = [Group(f"{group.name} {number}" if count > 1 else group.name) for number in range(1, max(count, 1) + 1)]
    for file in sorted(files.values(), key=lambda file: -file.seconds):
        min(parts, key=lambda part: part.seconds).tests.extend(file.tests)
    return parts


class Scheduling(LoadScopeScheduling):
    """Sends the groups of a plan that the workers wrote; a worker that has more than one test to go gets no group yet.

    Of the workers of a core the last begins with groups that compute, the others with those that wait: all together would
    wait at first, and all compute at the end.
    """

    def __init__(self, config: pytest.Config, log: Any, plan_file: Path) -> None:
        super().__init__(config, log)
        self._plan_file = plan_file
        self._groups: dict[str, str] = {}
        self._computing: frozenset[str] = frozenset()

    def _split_scope(self, nodeid: str) -> str:
        if not self._groups:
            written = json.loads(self._plan_file.read_text())
            self._groups, self._computing = written["groups"], frozenset(written["computing"])
        return self._groups[nodeid]

    def _assign_work_unit(self, node: Any) -> None:
        computes = number_of(node.gateway.id) >= self.numnodes * 2 / 3
        following = next((name for name in self.workqueue if (name in self._computing) is computes), None)
        if following is not None:
            self.workqueue.move_to_end(following, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if node.shutting_down or not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)


class Schedule:
    """The plugin of pytest: tells the workers what is known, and learns from their reports."""

    def __init__(self) -> None:
        self._plan_file = Path(tempfile.mkdtemp(prefix="transom-tests-")) / "plan.json"
        self._known = durations()
        self._measured: dict[str, float] = defaultdict(float)
        self._control_planes = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["schedule"] = {"durations": self._known, "plan": str(self._plan_file)}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Scheduling | None:
        return Scheduling(config, log, self._plan_file) if config.getvalue("dist") == "loadscope" else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._control_planes += getattr(node, "workeroutput", {}).get(_CONTROL_PLANES, 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._control_planes:
            terminalreporter.write_line(f"{self._control_planes} control planes were started")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._measured[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        shutil.rmtree(self._plan_file.parent, ignore_errors=True)
        if self._measured:
            remember(self._measured)


def durations() -> dict[str, float]:
    """Seconds of each test when it last ran."""
    file = cache.directory() / _DURATIONS
    found: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
    return found


def remember(measured: Mapping[str, float]) -> None:
    """Keep what tests took, beside what others took."""
    with cache.locked("durations"):
        file = cache.directory() / _DURATIONS
        unfinished = file.with_suffix(".new")
        unfinished.write_text(json.dumps(durations() | {name: round(seconds, 2) for name, seconds in measured.items()}))
        unfinished.rename(file)


def arrange(items: list[pytest.Item], workerinput: Mapping[str, Any]) -> None:
    """Put the tests of a worker into the order of the plan, and write the group of each down for the scheduler."""
    given = workerinput["schedule"]
    by_name = {item.nodeid: item for item in items}
    groups = plan([_planned(item, given["durations"]) for item in items], workerinput["workercount"])
    if seed := os.environ.get("TRANSOM_ORDER"):
        for group in groups:
            group.tests = drawn(group.tests, seed)
    items[:] = [by_name[test.name] for group in groups for test in group.tests]
    file = Path(given["plan"])
    unfinished = file.with_suffix(f".{workerinput['workerid']}")
    written = {
        "groups": {test.name: group.name for group in groups for test in group.tests},
        "computing": [group.name for group in groups if group.computes],
    }
    unfinished.write_text(json.dumps(written))
    unfinished.rename(file)


def stay_on_one_core(workerid: str) -> None:
    """Keep a worker, and all that it will start, on one of the cores, each worker in turn on the next.

    A worker mostly waits for a process that it has started, or that for it. On one core a message costs a switch; to another
    core, which sleeps, on a virtual machine ten times as much (`benchmarks/tests.md`).
    """
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number_of(workerid) % len(cores)]})


def number_of(workerid: str) -> int:
    """Of `gw3` 3."""
    return int(workerid.removeprefix("gw"))


def leave_servers(item: pytest.Item, following: pytest.Item | None) -> None:
    """End the servers of a test that the following one does not use, and what depends on them.

    pytest would keep them to the end of the session, and a control plane that idles uses a fiftieth of a core.
    """
    kept = {id(one) for _, one in _servers(following)} if following else set()
    for _, server in _servers(item):
        if id(server) not in kept:
            server.finish(item._request)  # type: ignore[attr-defined]


def count_servers(workeroutput: dict[str, Any]) -> None:
    """Tell the controller how many control planes a worker has started."""
    workeroutput[_CONTROL_PLANES] = ControlPlane.started


def _servers(item: pytest.Item) -> list[tuple[str, Any]]:
    return [(name, one) for name, one in _fixtures(item) if name in SERVERS and one.scope == "session"]


def _planned(item: pytest.Item, known: Mapping[str, float]) -> Planned:
    waits = item.get_closest_marker("lab") is not None
    guess = GUESS_LAB if waits else GUESS
    file = item.nodeid.partition("::")[0]
    servers = sorted((SERVERS.index(name), f"{_place(one)} {name}") for name, one in _servers(item))
    shares = any(one.scope not in ("function", "session") for _, one in _fixtures(item))
    return Planned(item.nodeid, file, known.get(item.nodeid, guess), servers[0][1] if servers else "", shares, waits)


def _fixtures(item: pytest.Item) -> Iterable[tuple[str, Any]]:
    """The fixtures of this repository that a test uses, directly or not."""
    for name, definitions in item._fixtureinfo.name2fixturedefs.items() if isinstance(item, pytest.Function) else ():
        if definitions and _place(definitions[-1]).startswith("tests"):
            yield name, definitions[-1]


def _place(fixture: Any) -> str:
    """The directory whose conftest defines a fixture; of a plugin, which is for all, its module."""
    place: str = fixture.baseid or fixture.func.__module__
    return place
