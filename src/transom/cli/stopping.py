"""How a command is stopped: the first Ctrl-C, SIGTERM or SIGHUP ends it in order and within a limit, a second one at once.

The exit code is 128 plus the number of the first signal, as of a shell. Servers (`run`, `webhook`, `simulate`) take the signals
themselves, and end with 0.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final, NamedTuple, TypeVar

from transom.cli.messages import print_to_stderr
from transom.common.escaping import escape_unprintable

_T = TypeVar("_T")
_NAMES: Final = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
ENDING_SECONDS: Final = 15.0
"""Seconds in which a command that leaves nothing behind ends, and in which a report is written."""
_ONE_PRESS_SECONDS: Final = 0.1
"""Seconds in which signals count as one: GNU timeout and `uv run` send theirs to the process and to its group."""
_AT_ONCE_SECONDS: Final = 1.0
_TASKS_SECONDS: Final = 2.0
"""Seconds in which background tasks must end after the work."""


class StopPlan(NamedTuple):
    """What a command still does when it is stopped, and what stays where that is cut short too."""

    doing: str
    """`finishing win-1`; empty where the command just ends."""
    seconds: float
    """How long that takes at most."""
    left: str
    """A sentence about what a second signal leaves behind; empty for nothing."""


NOTHING: Final = StopPlan("", ENDING_SECONDS, "")


class StoppedAtOnce(KeyboardInterrupt):
    """The second signal came, or the time after the first is over: nothing more is waited for.

    `result` is what the command that was cut short gives for what it has done so far.
    """

    def __init__(self, result: object = None) -> None:
        super().__init__()
        self.result = result


class _StopDescription(NamedTuple):
    plan: Callable[[], StopPlan]
    result: Callable[[], object]


class _SignalState:
    """What has come so far. Signals belong to a process, and so does this."""

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self.at_once = False
        self.is_reported = False
        """Whether a line has named the signal."""
        self.descriptions: list[_StopDescription] = []
        self.cancel: Callable[[StopPlan], None] | None = None
        """Ends the work of the event loop; None while none runs."""
        self.writing = 0
        """How many reports are being written, or about to be: a first signal lets them be complete."""
        self._since = 0.0

    @property
    def exit_code(self) -> int:
        return 128 + (self.first or signal.SIGINT)

    def build_stop_plan(self) -> StopPlan:
        return self.descriptions[-1].plan() if self.descriptions else NOTHING

    def handle_signal(self, number: int, _: FrameType | None) -> None:
        """Handle a signal. Raises KeyboardInterrupt where no event loop runs, StoppedAtOnce for a second signal."""
        if self.at_once:
            os._exit(self.exit_code)
        if number == signal.SIGALRM:
            # the time after the first signal is over
            if self.first is not None:
                self._stop_at_once(f"was not done in time after {get_signal_name()}")
        elif self.first is None:
            self._handle_first_signal(signal.Signals(number))
        elif number != signal.SIGHUP and time.monotonic() - self._since > _ONE_PRESS_SECONDS:
            # of a terminal that is gone, both its shell and the kernel tell
            self._stop_at_once("stopped at once")

    def _handle_first_signal(self, number: signal.Signals) -> None:
        self.first, self._since = number, time.monotonic()
        plan = self.build_stop_plan()
        signal.setitimer(signal.ITIMER_REAL, plan.seconds)
        if self.cancel is not None:
            self.cancel(plan)
        elif not self.writing:
            raise KeyboardInterrupt

    def _stop_at_once(self, how: str) -> None:
        self.at_once = True
        signal.setitimer(signal.ITIMER_REAL, _AT_ONCE_SECONDS)
        left = self.build_stop_plan().left
        if left:
            self.is_reported = True
            # whatever is written just now: this line does not wait for it
            line = f"transom: {how}: {escape_unprintable(left)}\n"
            with suppress(OSError):
                os.write(2, (line if not os.isatty(2) else f"\n{line}").encode("utf-8", "replace"))
        raise StoppedAtOnce

    def print_stop_line(self, line: str) -> None:
        self.is_reported = True
        if sys.stderr.isatty():
            # the line that the terminal has `^C` on
            print_to_stderr("")
        print_to_stderr(line)


_stop = _SignalState()


def get_signal_name() -> str:
    """Return the name of the signal that has stopped the command, for people."""
    return _NAMES[_stop.first or signal.SIGINT]


def mark_stop_reported() -> None:
    """Note that the command itself has said that it was stopped."""
    _stop.is_reported = True


@contextmanager
def handle_signals() -> Iterator[None]:
    """Handle the signals in a block, which is the whole command. A command that a signal has stopped ends the process here.

    A signal that is ignored stays so: `nohup`, a job in the background of a script.
    """
    global _stop  # noqa: PLW0603  # one of the process
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _stop = _SignalState()
    before = {number: signal.getsignal(number) for number in (*_NAMES, signal.SIGALRM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN or number == signal.SIGALRM:
            signal.signal(number, _stop.handle_signal)
    try:
        yield
    except (SystemExit, KeyboardInterrupt):
        if _stop.first is None:
            raise
    finally:
        if _stop.first is None:
            for number, handler in before.items():
                # None: of another language in this process
                if handler is not None:
                    signal.signal(number, handler)
    if _stop.first is not None:
        _end_process()


def _end_process() -> None:
    """End without the interpreter's own end, which waits for threads: one may be resolving a name."""
    try:
        if not _stop.is_reported:
            _stop.print_stop_line(f"transom: stopped by {get_signal_name()}")
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, KeyboardInterrupt):
        # the reader is gone, or the third signal came
        pass
    os._exit(_stop.exit_code)


@contextmanager
def register_stop_plan(plan: Callable[[], StopPlan], result: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Describe a signal in the block: `plan` is called when it arrives, `result` returns what a second signal interrupts."""
    _stop.descriptions.append(_StopDescription(plan, result))
    try:
        yield
    finally:
        _stop.descriptions.pop()


@contextmanager
def protect_output() -> Iterator[None]:
    """Write a report to its end though a first signal comes; KeyboardInterrupt is raised after the block then."""
    before = _stop.first
    _stop.writing += 1
    try:
        yield
    finally:
        _stop.writing -= 1
    if _stop.first is not before and not _stop.writing and _stop.cancel is None:
        raise KeyboardInterrupt


def run_until_stopped(work: Coroutine[Any, Any, _T], *, reports: bool = False) -> _T:
    """Run a coroutine as `asyncio.run` does. The first signal cancels it and is reported as `register_stop_plan` says.

     With `reports`, the rest of the command is its report: a first signal after the work does not suppress it.
    Raises KeyboardInterrupt if the work ended by that; StoppedAtOnce if it did not end in time, or a second signal came.
    Helper tasks (of a connection, for example) run until the work has ended: `asyncio.run` cancels them with it when it is
    interrupted a second time, and clean-up then waits for answers that no task reads.
    """
    import asyncio

    stop, runner = _stop, asyncio.Runner()
    loop = runner.get_loop()
    task = loop.create_task(work)

    def cancel(plan: StopPlan) -> None:
        def start_cancel() -> None:
            if plan.doing:
                stop.print_stop_line(_format_announcement(plan))
            task.cancel()

        loop.call_soon_threadsafe(start_cancel)

    stop.cancel = cancel
    try:
        return loop.run_until_complete(task)
    except StoppedAtOnce as error:
        # nothing of it is taken apart: that would be waited for
        _abandoned.append(runner)
        _abandoned.append(task)
        if stop.descriptions:
            error.result = stop.descriptions[-1].result()
        raise
    except asyncio.CancelledError:
        if stop.first is None:
            raise
        raise KeyboardInterrupt from None
    finally:
        stop.writing += reports
        stop.cancel = None
        if stop.first is None:
            runner.close()
        elif not stop.at_once:
            # the threads that resolve names are not waited for
            signal.setitimer(signal.ITIMER_REAL, ENDING_SECONDS)
            _abandoned.append(runner)
            _end_tasks(loop)


_abandoned: Final[list[object]] = []
"""What must not be collected before the process ends: tasks would say that they were destroyed."""


def _end_tasks(loop: Any) -> None:
    import asyncio

    if left := asyncio.all_tasks(loop):
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=_TASKS_SECONDS))


def _format_announcement(plan: StopPlan) -> str:
    again = "press Ctrl-C again" if _stop.first is signal.SIGINT else "send SIGTERM again"
    return f"transom: {get_signal_name()}: {plan.doing} (at most {plan.seconds:.0f} s); {again} to stop at once"


def list_server_signals() -> tuple[signal.Signals, ...]:
    """Return the signals by which a server ends; SIGHUP not where it is ignored, as under `nohup`."""
    hangup = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGTERM, signal.SIGINT, *hangup)
