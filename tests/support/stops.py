"""Commands that are stopped by a signal at a moment that a host sees: whether they keep what they announce."""

import asyncio
import json
import re
import signal
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from tests.support.process import Process
from tests.support.waiting import until

from winsim import Host

_T = TypeVar("_T")
_ANNOUNCED = re.compile(r"at most (\d+) s")
_SLACK = 60.0
"""Seconds by which a machine with other work to do may stand still."""
_UNANNOUNCED, _AT_ONCE = 15.0, 1.0
_TOGETHER = 0.1
"""Seconds in which signals are one press."""
TEMPORARY = re.compile(r"[fgptv]-[0-9a-f]{8}-.*|lock")
"""What a pass has in Transom's directory while it works."""


class Press(NamedTuple):
    """What stops a command: a signal, once or twice."""

    signal: signal.Signals
    times: int = 1


PRESSES = (
    Press(signal.SIGINT),
    Press(signal.SIGTERM, 2),
    Press(signal.SIGTERM),
    Press(signal.SIGINT, 2),
    Press(signal.SIGHUP),
)
"""All of them come at ten moments."""


class Stopped(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What it printed as JSON; None where it was stopped before there was anything."""
        return json.loads(self.out) if self.out else None


async def stopped(process: Process, press: Press) -> Stopped:
    """Wait for the end of a command that was sent a signal just now; see that it ends by itself, when it said that it would."""
    await until(lambda: process.returncode is not None or _announced(process), every=0.01)
    seconds = _announced(process) or _UNANNOUNCED
    if press.times > 1 and process.returncode is None:
        await asyncio.sleep(1.5 * _TOGETHER)
        process.send_signal(press.signal)
        seconds = _AT_ONCE
    try:
        async with asyncio.timeout(seconds + _SLACK):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        raise AssertionError(f"did not end within {seconds:g} s: {process.written()[1].decode()}") from None
    assert await process.wait() == 128 + press.signal, err.decode()
    assert b"Traceback" not in err, err.decode()
    return Stopped(128 + press.signal, out.decode(), err.decode())


def _announced(process: Process) -> float:
    found = _ANNOUNCED.search(process.written()[1].decode())
    return float(found[1]) if found else 0.0


class Steps:
    """The steps of commands on a simulated host, counted: requests, and lines of scripts."""

    def __init__(self, host: Host) -> None:
        self._host, self._count, self._at = host, 0, 0
        self._press = Press(signal.SIGINT)
        self._running: Process | None = None
        self._sent = False
        host.interlopers.add(self._step)

    async def count(self, work: Awaitable[_T]) -> tuple[int, _T]:
        """How many steps something takes, and what it gives."""
        self._count, self._at = 0, 0
        result = await work
        return self._count, result

    async def stop(self, number: int, press: Press, start: Callable[[], Awaitable[Process]]) -> Stopped:
        """Start a command and stop it at the step of this number; before a second press, the host becomes slow."""
        self._count, self._at, self._press, self._sent = 0, number, press, False
        self._running = await start()
        return await self._end(self._running)

    async def stop_in(self, words: str, press: Press, running: Process) -> Stopped:
        """Stop a command as soon as the host starts a program whose command line has these words."""
        self._at, self._press, self._sent = 0, press, False
        self._running = running
        self._host.watchers.add(lambda line: self._send() if words in line and not self._sent else None)
        return await self._end(running)

    async def _end(self, running: Process) -> Stopped:
        await until(lambda: self._sent or running.returncode is not None, every=0.01)
        assert self._sent, running.written()[1].decode()
        ended = await stopped(running, self._press)
        self._host.faults.disk_delay = 0.0
        return ended

    def _step(self) -> None:
        self._count += 1
        if self._count == self._at:
            self._send()

    def _send(self) -> None:
        if self._running is not None:
            self._running.send_signal(self._press.signal)
            # the second press has to come before all is cleared up
            self._host.faults.disk_delay = 2.0 if self._press.times > 1 else 0.0
            self._sent = True
