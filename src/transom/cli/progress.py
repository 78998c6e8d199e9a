"""How far a command on many hosts has come, on stderr: a line for each host as it ends, and on a terminal a bar below them."""

import sys
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

import msgspec
import structlog
from rich.console import RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from transom.apply.host_pass import PassObserver
from transom.apply.report import CHANGE_CUT, STOPPED, STOPPED_AT_ONCE, HostReport
from transom.apply.roll_out import CHANGE_STOP_SECONDS
from transom.apply.target import Target
from transom.cli.stopping import NOTHING, StopPlan
from transom.cli.tables import STYLES, format_host_line, format_names
from transom.cli.terminal import Terminal
from transom.common.escaping import escape_unprintable
from transom.hosts.passes.base_pass import STOP_SECONDS, PassResult

_log: Final = structlog.get_logger("transom.cli.progress")
_LONG: Final = 2.0
"""Seconds from which a host that is worked on is named."""


class Progress(PassObserver):
    """Lines, and on a terminal how many hosts are done, who failed, who is worked on longest, what others wait for."""

    def __init__(self, total: int, word: str) -> None:
        self._console = Terminal(stderr=True)
        self._working: dict[str, float] = {}
        self._changing: set[str] = set()
        self._failed: list[str] = []
        self._awaited = ""
        self._word = word
        columns = (
            TextColumn("{task.description}"),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        # the report says all of it again on the same screen
        self._repeated = sys.stdout.isatty() and sys.stderr.isatty()
        self._total = total
        self._bar = _Bar(*columns, console=self._console, transient=True, disable=not (sys.stderr.isatty() and total > 0))
        self._bar.below = self.format_progress
        self._task = self._bar.add_task(f"hosts {word}", total=total)
        self._warned: set[str] = set()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, _t: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None) -> None:
        self.hide_bar()

    def hide_bar(self) -> None:
        """Take the bar off the terminal."""
        self._bar.stop()

    def print_line(self, text: str) -> None:
        """Print a line about all hosts."""
        self._print(text, "dim")

    def warn(self, text: str) -> None:
        """Print a line once, also without a terminal."""
        if text not in self._warned:
            self._warned.add(text)
            self._print(f"transom: {text}")

    def print_host_result(self, report: HostReport) -> None:
        """Print that a host ended; on a terminal that gets the report as well, in few words, and of a single host nothing."""
        if report.error == STOPPED:
            # it never started, so it does not end: the report covers these hosts
            return
        line = format_host_line(report, planned=self._word == "compared", short=self._repeated)
        if not (self._repeated and self._total == 1):
            self._print(line, STYLES[report.result] if report.error else "")
        if report.result == "failed":
            self._failed.append(report.name)
        self._bar.advance(self._task)

    def _print(self, line: str, style: str = "") -> None:
        # on a terminal lines break between words; in a file a line is a line
        self._console.print(escape_unprintable(line), style=style, soft_wrap=not self._console.is_terminal)

    def set_wait_reason(self, text: str) -> None:
        """Set what hosts wait for; an empty string clears it."""
        self._awaited = text

    def on_start(self, target: Target) -> None:
        """Note which host is worked on."""
        self._working[target.instance.name] = time.monotonic()

    def on_change(self, target: Target) -> None:
        """Note which host is being changed."""
        self._changing.add(target.instance.name)

    def on_end(self, target: Target, result: PassResult | None) -> None:
        """Note that work on a host ended."""
        name = target.instance.name
        self._working.pop(name, None)
        self._changing.discard(name)
        if result is not None:
            _log.debug("pass", host=name, result=result.result, channels=result.channels, steps=_format_steps(result))

    def build_stop_plan(self) -> StopPlan:
        """Return what is finished after a signal now, and what a second signal leaves undone."""
        changing = [name for name in self._working if name in self._changing]
        if changing:
            cut = f"the change of {format_names(changing, 3)} may be incomplete: run the command again to complete it"
            return StopPlan(f"finishing {format_names(changing, 3)}", CHANGE_STOP_SECONDS, cut)
        if self._working:
            names = format_names(list(self._working), 3)
            left = r"no host was being changed; temporary files may stay in C:\Windows\Transom until the next command on it"
            return StopPlan(f"no host is being changed; removing temporary files from {names}", STOP_SECONDS, left)
        return NOTHING

    def build_interrupted_report(self, untouched: HostReport) -> HostReport:
        """Return the report of an unfinished host after a second signal; `untouched` is the one of a host without a visit."""
        if untouched.name in self._changing:
            return msgspec.structs.replace(untouched, result="failed", error=CHANGE_CUT)
        return untouched.as_skipped(STOPPED_AT_ONCE if untouched.name in self._working else STOPPED)

    def format_progress(self) -> str:
        """Return who failed, which host takes longest, and what the others wait for."""
        now = time.monotonic()
        parts = [f"{len(self._failed):,} failed: {format_names(self._failed, 3)}"] if self._failed else []
        if self._working:
            name, since = min(list(self._working.items()), key=lambda item: item[1])
            if now - since >= _LONG:
                parts.append(f"{name} for {now - since:.0f} s")
        return "; ".join([*parts, *([self._awaited] if self._awaited else [])])


def _format_steps(result: PassResult) -> list[str]:
    return [f"{step.action} {step.target}" for step in (*result.first, *(result.plan.steps if result.plan else ()))]


class _Bar(Bar):
    """With a separate line below it: a narrow terminal has no room next to it."""

    below: Callable[[], str] = staticmethod(lambda: "")

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if standing := self.below():
            yield Padding(Text(escape_unprintable(standing), "dim"), (0, 0, 0, 2))
