"""A command on hosts is stopped at ten moments of its work: its report, what it leaves, and what the next one does."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from lab.machine import Machine
from tests.apply.targets import target
from tests.apply.windows import SERVICES, SETTINGS, Desk, Simulated, Wine
from tests.support.stops import PRESSES, TEMPORARY, Press, Steps, stopped
from tests.support.waiting import until

from transom.apply.host_pass import HostPass
from transom.apply.report import HostReport
from transom.cli import state
from transom.hosts.scripts.template import BASE
from transom.hosts.ssh.ssh_client import Timeouts
from transom.windows.host.queries import LEDGER
from winsim import Fault, Simulator
from winsim.checkpoint import Checkpoint
from winsim.filesystem import SimulatedDirectory, list_entries

MOMENTS = 10
OTHER = {**SETTINGS, "noProxy": ".corp.example,.other.example"}


class Bench:
    """A desk before one simulated host, where a command can be stopped again and again from one beginning."""

    def __init__(self, simulated: Simulated, directory: Path) -> None:
        self.windows, self.host = simulated, simulated.host
        self.desk, self.steps = Desk(directory, simulated), Steps(self.host)

    def left(self) -> list[str]:
        """What lies in Transom's directory."""
        found = self.host.files.find(BASE)
        return [node.name for node in list_entries(found)] if isinstance(found, SimulatedDirectory) else []

    def starts(self) -> list[int]:
        """How often each service was started."""
        return [len(self.host.starts(name)) for name in SERVICES]


async def _converged(desk: Desk, *, remove: bool = False) -> HostReport:
    """What a following apply of this person does."""
    wanted = target(desk).without_settings() if remove else target(desk)
    return await HostPass(state.open_host_keys(), state.build_pass_settings(Timeouts())).run_and_report(wanted)


@pytest.fixture
async def bench(simulated: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    made = Bench(simulated, tmp_path / "desk")
    # the passes of this process are those of the same person
    monkeypatch.setenv("XDG_STATE_HOME", str(made.desk.directory / "state"))
    yield made
    assert simulated.host.unknown == []


@pytest.mark.parametrize("command", ["first apply", "apply", "remove", "rollback", "diff", "facts"])
async def test_at_each_moment(command: str, bench: Bench, tmp_path: Path) -> None:
    desk, host = bench.desk, bench.host
    desk.write(SETTINGS)
    bare, remove = command in ("first apply", "facts"), command == "remove"
    if not bare:
        assert (await desk.apply()).code == 0
    if command in ("apply", "diff"):
        desk.write(OTHER)
    key = tmp_path / "key"
    key.write_text(bench.windows.key)
    manifests = ("-f", str(desk.manifests), "-o", "json")
    words = {
        "first apply": ("apply", *manifests),
        "apply": ("apply", *manifests),
        "remove": ("apply", "--remove", *manifests),
        "rollback": ("rollback", *manifests),
        "diff": ("diff", *manifests),
        "facts": ("facts", host.address, "-p", str(host.port), "-u", host.username, "-i", str(key), "-o", "json"),
    }[command]
    start = await Checkpoint.take(host)
    steps, whole = await bench.steps.count(desk.transom(*words))
    assert whole.code in (0, 1), whole.err
    for moment in range(MOMENTS):
        await start.take_again()
        start.restore()
        before, press = host.registry, PRESSES[moment % len(PRESSES)]
        ended = await bench.steps.stop(1 + moment * steps // MOMENTS, press, lambda: desk.start(*words))
        where = f"{command}, moment {moment}, {press}: {ended.err}"
        await start.take_again()
        if press.times == 1:
            assert [name for name in bench.left() if TEMPORARY.fullmatch(name)] == [], where
            assert bench.left() == [] or not bare or host.registry.find_key(LEDGER) is not None, where
            assert host.tasks.list_names() == (), where
        if command in ("diff", "facts"):
            assert host.registry == before, where
        if command != "facts":
            (report,) = ended.data["hosts"]
            assert ended.data["stopped"], where
            if report["result"] == "skipped":
                assert host.registry == before and "nothing was changed" in report["error"], where
            else:
                assert report["result"] in ("changed", "failed"), where
        report = await _converged(desk, remove=remove)
        assert report.error is None, f"{where}\n{report}"
        starts = bench.starts()
        assert (await _converged(desk, remove=remove)).result == "unchanged", where
        assert bench.starts() == starts, where
        assert host.tasks.list_names() == () and [name for name in bench.left() if TEMPORARY.fullmatch(name)] == [], where
        assert (bench.left() == []) is (host.registry.find_key(LEDGER) is None) is remove, where
        assert [service.state.name for service in map(host.services.get, SERVICES)] == ["RUNNING"] * 2, where


@pytest.mark.parametrize("press", [Press(signal.SIGINT), Press(signal.SIGTERM), Press(signal.SIGTERM, 2)])
async def test_each_host_says_how_far_it_had_come(press: Press, tmp_path: Path) -> None:
    async with Simulator() as simulator, _silent() as silent:
        names = ["changing", "reading", "connecting", "waiting"]
        hosts = [Simulated(simulator, await simulator.add_host(name, services=SERVICES)) for name in names]
        desk = Desk(tmp_path / "desk", *hosts)
        desk.write(SETTINGS)
        changing, reading, connecting, waiting = (host.host for host in hosts)
        reading.faults.schedule_fault(Fault(1, "before", "hang"))
        manifests = desk.manifests / "all.yaml"
        manifests.write_text(manifests.read_text().replace(f"port: {connecting.port}\n", f"port: {silent.port}\n"))
        steps = Steps(changing)
        # the first host is slow until the others are where they stay
        changing.faults.disk_delay = 0.1
        options = ("--all-at-once", "--workers", "3", "--connect-timeout", "10m")
        process = await desk.start("apply", "-f", str(desk.manifests), "-o", "json", *options)
        await until(lambda: silent.connections and reading.faults.ordered is None)
        changing.faults.disk_delay = 0.0
        ended = await steps.stop_in(" import ", press, process)
    told = {host["name"]: (host["result"], host["error"] and host["error"].partition(":")[0]) for host in ended.data["hosts"]}
    assert told == {
        "win-1": ("changed", None) if press.times == 1 else ("failed", "stopped at once while the host was changed"),
        "win-2": ("skipped", "stopped while the host was read; nothing was changed"),
        "win-3": ("skipped", "stopped while connecting; nothing was changed"),
        "win-4": ("skipped", "stopped before its turn; nothing was changed"),
    }
    assert (ended.data["stopped"], waiting.traffic.connections) == (True, 0)


class _Silent:
    """Something that takes connections, and never says a word."""

    port = connections = 0

    def connected(self, _reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        self.connections += 1


@contextlib.asynccontextmanager
async def _silent() -> AsyncIterator[_Silent]:
    made = _Silent()
    server = await asyncio.start_server(made.connected, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


_ON_WINE = (
    ("gather-", Press(signal.SIGINT)),
    ("change.cmd", Press(signal.SIGTERM)),
    ("change.cmd", Press(signal.SIGINT, 2)),
)
"""What the host is asked to run when the signal comes."""


@pytest.mark.lab
async def test_on_wine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Machine() as machine:
        machine.boot()
        wine = Wine(machine)
        desk = Desk(tmp_path / "desk", wine)
        monkeypatch.setenv("XDG_STATE_HOME", str(desk.directory / "state"))
        for number, (script, press) in enumerate(_ON_WINE):
            desk.write({**SETTINGS, "noProxy": f".n{number}.example"})
            before = len(wine.commands())
            process = await desk.start("apply", "-f", str(desk.manifests), "-o", "json")
            await until(
                lambda before=before, script=script: any(script in command for command in wine.commands()[before:]), every=0.01
            )
            process.send_signal(press.signal)
            ended = await stopped(process, press)
            (report,) = ended.data["hosts"]
            assert report["result"] == ("skipped" if script == "gather-" else "changed" if press.times == 1 else "failed")
            if press.times == 1:
                assert _temporary(machine) == [] and machine.read_state("TransomRestart") == "", ended.err
            assert (await _converged(desk)).error is None, ended.err
            starts = [len(machine.list_starts(name)) for name in SERVICES]
            assert (await _converged(desk)).result == "unchanged", ended.err
            assert [len(machine.list_starts(name)) for name in SERVICES] == starts
            assert _temporary(machine) == [] and machine.read_state("TransomRestart") == "", ended.err
            assert [machine.read_state(name) for name in SERVICES] == ["RUNNING"] * 2


def _temporary(machine: Machine) -> list[str]:
    place = machine.find_path(BASE)
    return [file.name for file in place.iterdir() if TEMPORARY.fullmatch(file.name)] if place.is_dir() else []
