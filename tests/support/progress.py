"""How far a run is, in one line: `--short-progress` prints the share that is done, and a letter for a test that failed only."""

from typing import NamedTuple

import pytest

STEP = 5
"""Per cent."""


class Status(NamedTuple):
    """What pytest's terminal prints for a report: its category, a letter, a word."""

    category: str
    letter: str
    word: str


class ShortProgress:
    """The plugin of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._session: pytest.Session | None = None
        self._finished = self._printed = 0

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport | pytest.CollectReport) -> Status | None:
        return Status("passed", "", "") if report.passed and report.when == "call" else None

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "teardown" or self._session is None:
            return
        self._finished += 1
        share = 100 * self._finished // max(self._session.testscollected, 1) // STEP * STEP
        if share > self._printed:
            self._printed = share
            terminal = self._config.pluginmanager.get_plugin("terminalreporter")
            if terminal:
                terminal.write(f"{share}% ", flush=True)
