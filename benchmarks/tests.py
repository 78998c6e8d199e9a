"""Where the time of the tests goes: `uv run python -m benchmarks.tests [--numprocesses N] [arguments of pytest]`.

CPU by kind of process, by folder and by test, and the slowest tests. Every process that a test leaves behind comes to this one
(it is a subreaper, prctl(2)), so the sum is the kernel's and misses nothing. Kinds come from looks into /proc, twenty a second:
what lived shorter stands as "shorter than a look" (in Wine `reg.exe` and `sc.exe`, `kubectl` elsewhere). CPU of a test is what
all processes used while it ran, its fixtures included: with more than one worker a test has its share of the seconds it ran in.
"""

import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

EVERY = 0.05
SLOWEST = 20
_TIMES = "TRANSOM_TEST_TIMES"
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_TICK = os.sysconf("SC_CLK_TCK")
_KINDS = {
    "python": "pytest",
    "pytest": "pytest",
    "uv": "pytest",
    "etcd": "etcd",
    "kube-apiserver": "kube-apiserver",
    "kube-controller": "kube-controller-manager",
    "kubectl": "kubectl",
    "cabpk": "CABPK",
    "wineserver64": "wine: wineserver",
}


@dataclass
class Usage:
    """What was seen of one process: CPU seconds of its own, and of those that it waited for."""

    kind: str
    own: float = 0.0
    waited: float = 0.0


@dataclass
class Look:
    """CPU seconds of everything up to a moment, by kind."""

    at: float
    total: float
    kinds: dict[str, float]


@dataclass
class Watch:
    """All processes below this one."""

    seen: dict[tuple[int, str], Usage] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)

    def look(self) -> None:
        live = 0.0
        for pid, parts in _below(os.getpid()):
            key = (pid, parts[19])
            usage = self.seen.get(key)
            if usage is None or usage.kind in ("starting", "pytest"):
                kind = _kind(pid, parts)
                if usage is None:
                    usage = self.seen[key] = Usage(kind)
                usage.kind = kind or usage.kind
            usage.own, usage.waited = (int(parts[11]) + int(parts[12])) / _TICK, (int(parts[13]) + int(parts[14])) / _TICK
            live += usage.own + usage.waited
        kinds: Counter[str] = Counter()
        for usage in self.seen.values():
            kinds[usage.kind] += usage.own
        self.looks.append(Look(time.monotonic(), live + _reaped(), dict(kinds)))

    def between(self, begin: float, end: float) -> float:
        """CPU seconds between two moments."""
        inside = [look.total for look in self.looks if begin <= look.at <= end]
        return max(inside) - min(inside) if inside else 0.0


def _reaped() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _below(root: int) -> Iterator[tuple[int, list[str]]]:
    """The processes below one, with the fields of /proc/PID/stat from the third on."""
    found: dict[int, list[str]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue
        name, _, rest = text.partition("(")[2].rpartition(")")
        found[int(entry.name)] = [*rest.split(), name]
    children = defaultdict(list)
    for pid, parts in found.items():
        children[int(parts[1])].append(pid)
    waiting = list(children[root])
    while waiting:
        pid = waiting.pop()
        waiting += children[pid]
        yield pid, found[pid]


def _kind(pid: int, parts: list[str]) -> str:
    name = parts[-1]
    try:
        command = Path("/proc", str(pid), "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        command = ""
    if "lab.sshd" in command:
        return "lab.sshd"
    if "tests.support.forking" in command:
        return "transom (forked)"
    if ".exe" in name or "\\" in name or ".exe" in command.partition(" ")[0]:
        return f"wine: {name.rpartition(chr(92))[2].lower()}"
    if name.startswith("wine"):
        return _KINDS.get(name, "starting")
    if name.startswith("python") or "pytest" in command:
        return "transom (a process)" if "transom" in command.partition("-m ")[2] else "pytest"
    return _KINDS.get(name, name)


def measure(arguments: list[str]) -> int:
    """Run pytest below this process, and say what it used."""
    if ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")
    with tempfile.TemporaryDirectory(prefix="transom-test-times-") as directory:
        environment = os.environ | {_TIMES: directory, "PYTHONPATH": str(Path.cwd())}
        command = [sys.executable, "-m", "pytest", "-p", "benchmarks.tests", "-q", *arguments]
        began, watch = time.monotonic(), Watch()
        running = subprocess.Popen(command, env=environment)
        code = None
        while code is None:
            watch.look()
            code = _reap(running.pid)
            time.sleep(EVERY)
        while _reap(0) is not None:
            continue
        watch.look()
        tests = [json.loads(line) for file in Path(directory).iterdir() for line in file.read_text().splitlines()]
    _report(watch, tests, time.monotonic() - began)
    return code


def _reap(awaited: int) -> int | None:
    """Take in what has ended; the exit code of the process awaited (of any, for 0)."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if awaited in (0, pid):
            return os.waitstatus_to_exitcode(status)


def _report(watch: Watch, tests: list[dict[str, object]], wall: float) -> None:
    total, kinds = watch.looks[-1].total, watch.looks[-1].kinds
    print(f"\n{len(tests)} tests, {wall:.0f} s, {total:.0f} s of CPU\n")
    print("| kind of process | started | CPU seconds | share |\n|---|---|---|---|")
    started = Counter(usage.kind for usage in watch.seen.values())
    for kind, used in sorted(kinds.items(), key=lambda item: -item[1]):
        if used >= total / 200:
            print(f"| {kind} | {started[kind]} | {used:.1f} | {used / total:.0%} |")
    unseen = total - sum(kinds.values())
    print(f"| shorter than a look | | {unseen:.1f} | {unseen / total:.0%} |")
    rows = [
        (str(test["test"]), float(test["end"]) - float(test["begin"]), watch.between(float(test["begin"]), float(test["end"])))
        for test in tests
    ]  # type: ignore[arg-type]
    folders: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for name, seconds, used in rows:
        folder = folders[name.split("/")[1]]
        folder[0] += 1
        folder[1] += seconds
        folder[2] += used
    print("\n| folder | tests | seconds | CPU seconds |\n|---|---|---|---|")
    for name, (count, seconds, used) in sorted(folders.items(), key=lambda item: -item[1][2]):
        print(f"| {name} | {count:.0f} | {seconds:.1f} | {used:.1f} |")
    print("\n| test | seconds | CPU seconds |\n|---|---|---|")
    for name, seconds, used in sorted(rows, key=lambda row: -row[1])[:SLOWEST]:
        print(f"| {name.removeprefix('tests/')} | {seconds:.1f} | {used:.1f} |")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write down when a test began and ended; pytest loads this module as a plugin."""
    begin = time.monotonic()
    try:
        return (yield)
    finally:
        with Path(os.environ[_TIMES], str(os.getpid())).open("a") as file:
            file.write(json.dumps({"test": item.nodeid, "begin": begin, "end": time.monotonic()}) + "\n")


if __name__ == "__main__":
    sys.exit(measure(sys.argv[1:]))
