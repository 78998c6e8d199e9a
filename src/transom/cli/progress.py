"""How far a command on many hosts has come, on stderr: a line for each host as it ends, and on a terminal a bar below them."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

import structlog
from rich.console import RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from transom.apply import STOPPED, HostReport
from transom.apply.target import Target, Work
from transom.cli.tables import STYLES, line_of, named
from transom.cli.terminal import Terminal
from transom.hosts.passes import Admit, PassResult
from transom.shown import shown

_log: Final = structlog.get_logger("transom.cli.progress")
_LONG: Final = 2.0
"""Seconds from which a host that is worked on is named."""


class Progress:
    """Lines, and on a terminal how many hosts are done, who failed, who is worked on longest, what others wait for."""

    def __init__(self, total: int, word: str) -> None:
        self._console = Terminal(stderr=True)
        self._working: dict[str, float] = {}
        self._failed: list[str] = []
        self._awaited = ""
        self._word, self._stopping = word, False
        columns = (
            TextColumn("{task.description}"),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bar = _Bar(*columns, console=self._console, transient=True, disable=not (sys.stderr.isatty() and total > 0))
        self._bar.below = self.standing
        self._task = self._bar.add_task(f"hosts {word}", total=total)
        self._warned: set[str] = set()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, _t: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """A line about all hosts."""
        self._print(text, "dim")

    def warn(self, text: str) -> None:
        """A line for everybody, once."""
        if text not in self._warned:
            self._warned.add(text)
            self._print(f"transom: {text}")

    def done(self, report: HostReport) -> None:
        """One host more."""
        if report.error == STOPPED:
            # it was not begun, so nothing of it ends: the report says so of all of them
            return
        line = line_of(report, planned=self._word == "compared")
        self._print(line, STYLES[report.result] if report.error else "")
        if report.result == "failed":
            self._failed.append(report.name)
        self._bar.advance(self._task)

    def _print(self, line: str, style: str = "") -> None:
        # on a terminal lines break between words; in a file a line is a line
        self._console.print(shown(line), style=style, soft_wrap=not self._console.is_terminal)

    def wait_for(self, text: str) -> None:
        """What hosts that are not worked on wait for; nothing."""
        self._awaited = text

    def watching(self, work: Work) -> Work:
        """The same passes; who is worked on is known, and what a Ctrl-C means is said at once."""

        async def watched(target: Target, admit: Admit) -> PassResult:
            name = target.instance.name
            self._working[name] = time.monotonic()
            try:
                found = await work(target, admit)
            except asyncio.CancelledError:
                if not self._stopping:
                    self._stopping = True
                    self.say("stopping: what was begun on a host is finished first; Ctrl-C again to leave at once")
                raise
            finally:
                self._working.pop(name, None)
            _log.debug("pass", host=name, result=found.result, channels=found.channels, steps=_steps(found))
            return found

        return watched

    def standing(self) -> str:
        """Who failed, who is worked on longest, and what the others wait for."""
        now = time.monotonic()
        parts = [f"{len(self._failed):,} failed: {named(self._failed, 3)}"] if self._failed else []
        if self._working:
            name, since = min(list(self._working.items()), key=lambda one: one[1])
            if now - since >= _LONG:
                parts.append(f"{name} for {now - since:.0f} s")
        return "; ".join([*parts, *([self._awaited] if self._awaited else [])])


def _steps(found: PassResult) -> list[str]:
    return [f"{step.action} {step.target}" for step in (*found.first, *(found.plan.steps if found.plan else ()))]


class _Bar(Bar):
    """With a line of its own below it: a narrow terminal has no room beside it."""

    below: Callable[[], str] = staticmethod(lambda: "")

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        if standing := self.below():
            yield Padding(Text(shown(standing), "dim"), (0, 0, 0, 2))
