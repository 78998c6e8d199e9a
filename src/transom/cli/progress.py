"""How far a command on many hosts has come: one line on stderr, and only on a terminal."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from transom.controllers.windows.report import HostReport


class Progress:
    """A bar of hosts; it goes when the block ends, and a failure is written at once."""

    def __init__(self, total: int, word: str) -> None:
        self._console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        shown = sys.stderr.isatty() and total > 0
        self._bar = Bar(*columns, console=self._console, transient=True, disable=not shown)
        self._task = self._bar.add_task(f"hosts {word}", total=total)
        self._shown = shown
        self._warned: set[str] = set()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, _t: type[BaseException] | None, _e: BaseException | None, _tb: TracebackType | None) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """A line for people who watch."""
        if self._shown:
            self._console.print(text, style="dim", markup=False)

    def warn(self, text: str) -> None:
        """A line for everybody, once."""
        if text not in self._warned:
            self._warned.add(text)
            self._console.print(f"transom: {text}", markup=False, soft_wrap=True)

    def done(self, report: HostReport) -> None:
        """One host more."""
        if report.error and self._shown:
            self._console.print(f"{report.name}: {report.error}", style="red", markup=False)
        self._bar.advance(self._task)
