"""Which worker runs which tests, and in which order: what shares a server on one worker, the longest first.

How long each test took last time, and how much CPU, is kept in the lab's cache; without that a guess does. pytest-xdist sends
whole groups to workers; a worker gets its next group when the last test of its group begins, so a short test ends each long
group.
"""

import contextlib
import importlib
import json
import math
import os
import random
import shutil
import signal
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lab.claim import claim
from lab.control_plane import ControlPlane
from tests.support.cores import Balance, group_of_run, join, number_of, used
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import NodeManager

from lab import cache, network

SERVERS = ("control_plane", "management_plane", "management", "machine")
"""Fixtures of the session that cost seconds of CPU to start."""
LONG = 20.0
"""Seconds: a test of that length may go to another worker than its file."""
SHORT = 1.0
GROUP_SHARE = 0.6
"""Of what one worker has to do, a group is at most: each part of what shares a server starts a server of its own."""
GUESS, GUESS_LAB = 0.1, 3.0
WAITING = 0.25
"""What share of a test with real parts beside it uses a core, as a guess."""
ENDING = 60
"""Seconds that workers have after Ctrl-C to end what their tests began; xdist gives them 10, too few for some stories."""
_OWN = "transom-tests-"
_TIMES = "times.json"
_CONTROL_PLANES = "control_planes"
_CPU = "cpu"


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
    cpu: float = 0.0
    """Seconds, of all that it starts, too."""


@dataclass
class Group:
    """Tests that one worker runs one after the other."""

    name: str
    tests: list[Planned] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return sum(test.seconds for test in self.tests)

    @property
    def load(self) -> float:
        """How much of a core its tests use."""
        return sum(test.cpu for test in self.tests) / self.seconds if self.seconds else 0.0


def plan(tests: Sequence[Planned], workers: int) -> list[Group]:
    """Groups in the order in which workers get them. Tests of a file stay in their order, but for long ones of their own."""
    groups: dict[str, Group] = {}
    for test in tests:
        alone = test.seconds >= LONG and not test.server and not test.shares
        name = test.server or (test.name if alone else test.file)
        groups.setdefault(name, Group(name)).tests.append(test)
    limit = max(LONG, sum(test.seconds for test in tests) / workers * GROUP_SHARE)
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


def next_group(queue: Iterable[str], loads: Mapping[str, float], average: float, others: float) -> str:
    """The first of the groups in a queue that brings the load to the average, where the other workers' is `others` each."""
    waiting = list(queue)
    return next((name for name in waiting if (loads[name] > average) is (others < average)), waiting[0])


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

    Groups that compute, and those that wait for services and intervals, go side by side from the first to the last: a worker
    gets the longest of those that bring the load of all nearer to what it is on average.
    """

    def __init__(self, config: pytest.Config, log: Any, plan_file: Path) -> None:
        super().__init__(config, log)
        self._plan_file = plan_file
        self._groups: dict[str, str] = {}
        self._loads: dict[str, float] = {}
        self._average = 0.0

    def _split_scope(self, nodeid: str) -> str:
        if not self._groups:
            written = json.loads(self._plan_file.read_text())
            self._groups, self._loads, self._average = written["groups"], written["loads"], written["average"]
        return self._groups[nodeid]

    def _assign_work_unit(self, node: Any) -> None:
        running = [next(reversed(groups)) for one, groups in self.assigned_work.items() if groups and one is not node]
        others = sum(self._loads[group] for group in running) / max(self.numnodes - 1, 1)
        following = next_group(self.workqueue, self._loads, self._average, others)
        self.workqueue.move_to_end(following, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if node.shutting_down or not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)


class Schedule:
    """The plugin of pytest: tells the workers what is known, and learns from their reports."""

    def __init__(self) -> None:
        NodeManager.EXIT_TIMEOUT = ENDING
        place = Path(tempfile.gettempdir())
        self._directory, self._claim = claim(place, _OWN, f"{_OWN}*")
        # squid and others give root's rights up
        self._directory.chmod(0o711)
        self._plan_file = self._directory / "plan.json"
        # what a worker that is killed leaves goes with it; what pytest gives tests stays for people
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(place))
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._directory)
        self._balance: Balance | None = None
        self._terminal: pytest.TerminalReporter | None = None
        self._known = times()
        self._measured: dict[str, float] = defaultdict(float)
        self._cpu: dict[str, float] = {}
        self._control_planes = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        self._terminal = node.config.pluginmanager.get_plugin("terminalreporter")
        if self._balance is None and (group := group_of_run()) is not None:
            self._balance = Balance(group)
            self._balance.start()
        node.workerinput["schedule"] = {
            "times": self._known,
            "plan": str(self._plan_file),
            "group": str(self._balance.group) if self._balance else "",
        }

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Scheduling | None:
        return Scheduling(config, log, self._plan_file) if config.getvalue("dist") == "loadscope" else None

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", {})
        self._control_planes += output.get(_CONTROL_PLANES, 0)
        self._cpu |= output.get(_CPU, {})

    def pytest_keyboard_interrupt(self) -> None:
        if self._terminal:
            self._terminal.write_line(f"what the tests began is ended, within {ENDING} s; once more Ctrl-C kills it")
        for file in self._directory.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGINT)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._control_planes:
            terminalreporter.write_line(f"{self._control_planes} control planes were started")
        if self._balance:
            terminalreporter.write_line(f"workers changed their core {self._balance.moves} times")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._measured[report.nodeid] += report.duration

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        # xdist has ended the workers before
        if self._cpu:
            remember({name: (self._measured[name], cpu) for name, cpu in self._cpu.items()})

    def pytest_unconfigure(self) -> None:
        # also where the end of the session was interrupted
        if self._balance:
            self._balance.end()
        network.sweep()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._claim.close()


def times() -> dict[str, tuple[float, float]]:
    """Of each test, when it last ran: seconds on the clock, and of CPU."""
    file = cache.directory() / _TIMES
    found: dict[str, tuple[float, float]] = json.loads(file.read_text()) if file.exists() else {}
    return found


def remember(measured: Mapping[str, tuple[float, float]]) -> None:
    """Keep what tests took, beside what others took."""
    with cache.locked("times"):
        file = cache.directory() / _TIMES
        unfinished = file.with_suffix(".new")
        rounded = {name: (round(seconds, 2), round(cpu, 2)) for name, (seconds, cpu) in measured.items()}
        unfinished.write_text(json.dumps(times() | rounded))
        unfinished.rename(file)


def arrange(items: list[pytest.Item], workerinput: Mapping[str, Any]) -> None:
    """Put the tests of a worker into the order of the plan, and write the group of each down for the scheduler."""
    given = workerinput["schedule"]
    by_name = {item.nodeid: item for item in items}
    groups = plan([_planned(item, given["times"]) for item in items], workerinput["workercount"])
    if seed := os.environ.get("TRANSOM_ORDER"):
        for group in groups:
            group.tests = drawn(group.tests, seed)
    items[:] = [by_name[test.name] for group in groups for test in group.tests]
    file = Path(given["plan"])
    unfinished = file.with_suffix(f".{workerinput['workerid']}")
    written = {
        "groups": {test.name: group.name for group in groups for test in group.tests},
        "loads": {group.name: group.load for group in groups},
        "average": sum(test.cpu for group in groups for test in group.tests) / (sum(group.seconds for group in groups) or 1),
    }
    unfinished.write_text(json.dumps(written))
    unfinished.rename(file)


def leave_servers(item: pytest.Item, following: pytest.Item | None) -> None:
    """End the servers of a test that the following one does not use, and what depends on them.

    pytest would keep them to the end of the session, and a control plane that idles uses a fiftieth of a core.
    """
    kept = {id(one) for _, one in _servers(following)} if following else set()
    for _, server in _servers(item):
        if id(server) not in kept:
            server.finish(item._request)  # type: ignore[attr-defined]


class Worker:
    """The plugin of a worker: its core, and what its tests use."""

    def __init__(self, config: Any) -> None:
        workerid, schedule = config.workerinput["workerid"], config.workerinput["schedule"]
        group = schedule["group"]
        join(workerid, Path(group) if group else None)
        # by it the controller passes Ctrl-C on
        Path(schedule["plan"]).with_name(f"{workerid}.pid").write_text(str(os.getpid()))
        self._group = Path(group, workerid) if group else None
        self._output: dict[str, Any] = config.workeroutput
        self._cpu: dict[str, float] = {}
        self._begins = number_of(workerid) / config.workerinput["workercount"]

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """Import the files, each worker from another one on: in a fresh clone the first to come to each compiles it."""
        if not isinstance(collector, pytest.Session):
            return
        paths = [Path(argument.partition("::")[0]).absolute() for argument in collector.config.args]
        found = (path.rglob("test_*.py") if path.is_dir() else [path] for path in paths)
        files = sorted({file for some in found for file in some})
        first = int(len(files) * self._begins)
        for file in [*files[first:], *files[:first]]:
            # what cannot be imported, or skips itself, is told when it is collected
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(file.relative_to(collector.config.rootpath).with_suffix("").parts))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = used(self._group)
        try:
            return (yield)
        finally:
            self._cpu[item.nodeid] = used(self._group) - before

    def pytest_sessionfinish(self) -> None:
        self._output |= {_CONTROL_PLANES: ControlPlane.started, _CPU: self._cpu}


def _servers(item: pytest.Item) -> list[tuple[str, Any]]:
    return [(name, one) for name, one in _fixtures(item) if name in SERVERS and one.scope == "session"]


def _planned(item: pytest.Item, known: Mapping[str, Sequence[float]]) -> Planned:
    guess = (GUESS_LAB, GUESS_LAB * WAITING) if item.get_closest_marker("lab") else (GUESS, GUESS)
    file = item.nodeid.partition("::")[0]
    servers = sorted((SERVERS.index(name), f"{_place(one)} {name}") for name, one in _servers(item))
    shares = any(one.scope not in ("function", "session") for _, one in _fixtures(item))
    seconds, cpu = known.get(item.nodeid, guess)
    return Planned(item.nodeid, file, seconds, servers[0][1] if servers else "", shares, cpu)


def _fixtures(item: pytest.Item) -> Iterable[tuple[str, Any]]:
    """The fixtures of this repository that a test uses, directly or not."""
    for name, definitions in item._fixtureinfo.name2fixturedefs.items() if isinstance(item, pytest.Function) else ():
        if definitions and _place(definitions[-1]).startswith("tests"):
            yield name, definitions[-1]


def _place(fixture: Any) -> str:
    """The directory whose conftest defines a fixture; of a plugin, which is for all, its module."""
    place: str = fixture.baseid or fixture.func.__module__
    return place
