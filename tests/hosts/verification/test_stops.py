"""`transom verify host` is stopped at ten moments of its work: nothing of it stays, and a second press is made good later."""

import os
import signal
from pathlib import Path

import pytest
from lab.machine import Machine
from lab.sshd.journal import sum_traffic
from tests.hosts.machines import WineHost
from tests.hosts.simulated import SERVICES, SimulatedHost
from tests.hosts.verification.test_verification import left
from tests.support.process import Process, start
from tests.support.stops import PRESSES, Press, Steps, Stopped, stopped
from tests.support.waiting import until
from tests.support.workers.hosts import everything

from transom.hosts.passes.verification import LIFE
from transom.hosts.steps.change_checks import build_change_checks
from transom.windows.host.queries import LEDGER
from winsim import Simulator
from winsim.checkpoint import Checkpoint

MOMENTS = 10


class Verification:
    """The command, for one host."""

    def __init__(self, host: SimulatedHost | WineHost, directory: Path, *more: str) -> None:
        key, access = directory / "key", host.access
        key.write_text(access.keys[0].reveal())
        self.words = (
            *("verify", "host", access.address, "-p", str(access.port), "-u", access.username, "-i", str(key), "-o", "json"),
            *more,
        )
        self._environment = {"HOME": str(directory), "XDG_STATE_HOME": str(directory), "PATH": os.defpath}

    async def start(self) -> Process:
        return await start(*self.words, environment=self._environment)

    async def finish(self) -> dict[str, str]:
        """The verdict of each check."""
        process = await self.start()
        out, err = await process.communicate()
        assert await process.wait() in (0, 1), err
        return _verdicts(Stopped(0, out.decode(), err.decode()))


def _verdicts(ended: Stopped) -> dict[str, str]:
    return {check["id"]: check["verdict"] for check in ended.data["checks"]}


def _only(*checks: str) -> tuple[str, ...]:
    return ("--change", *(word for check in checks for word in ("--check", check)))


_OPTIONS = {"read": (), "change": _only(*(trial.id for trial in build_change_checks("", b""))), "life": _only(LIFE)}


@pytest.mark.parametrize("options", _OPTIONS.values(), ids=_OPTIONS)
async def test_at_each_moment(options: tuple[str, ...], simulator: Simulator, tmp_path: Path) -> None:
    made = await simulator.add_host(services=SERVICES)
    command, steps = Verification(SimulatedHost(simulator, made), tmp_path, *options), Steps(made)
    start, before = await Checkpoint.take(made), left(made)
    total, whole = await steps.count(command.finish())
    assert left(made) == before
    for moment in range(MOMENTS):
        press = PRESSES[moment % len(PRESSES)]
        ended = await steps.stop(1 + moment * total // MOMENTS, press, command.start)
        where = f"moment {moment}, {press}: {ended.err}"
        assert ended.data["stopped"] and _verdicts(ended).items() <= whole.items(), where
        await start.take_again()
        if press.times == 1:
            assert left(made) == before, where
        elif moment in (1, 6):
            # what was left at once goes with the next one, a whole worker too
            assert options != _OPTIONS["life"] or moment == 1 or made.registry.find_key(LEDGER) is not None, where
            assert await command.finish() == whole, where
            assert left(made) == before, where
        start.restore()
    assert made.unknown == []


@pytest.mark.lab
@pytest.mark.parametrize(("times", "second"), [(1, False), (1, True), (2, False)], ids=["once", "one press", "twice"])
async def test_on_wine(times: int, second: bool, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A signal that came twice had the clean-up wait for an answer that nobody read, for as long as a pass may take."""
    machine: Machine = request.getfixturevalue("machine")
    wine = WineHost(machine)
    await wine.restore()
    before = everything(machine)
    for check in ("service-environment", "certificate"):
        command = Verification(wine, tmp_path, *_only(check))
        begin = len(machine.ssh.read_entries())
        process = await command.start()

        def begun(check: str = check, begin: int = begin) -> bool:
            return any(f"{check}.cmd" in command for command in sum_traffic(machine.ssh.read_entries()[begin:]).commands)

        await until(begun, every=0.01)
        process.send_signal(signal.SIGINT)
        if second:
            process.send_signal(signal.SIGINT)
        ended = await stopped(process, Press(signal.SIGINT, times))
        assert ended.data["stopped"], ended.err
        if times == 2:
            await command.finish()
        assert everything(machine) == before, ended.err
