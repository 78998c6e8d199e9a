"""The names of the tests that failed, for `scripts/test`, which runs them once more when nothing else runs."""

from pathlib import Path

import pytest


class Failures:
    """The plugin of pytest: writes each test that failed into a file, a line each, as pytest takes them by ``@FILE``."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._names: list[str] = []

    def pytest_sessionstart(self) -> None:
        self._file.write_text("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Also where the setup, the teardown or the whole worker failed; a test that did so twice stands there once."""
        name = report.nodeid
        if name.rfind("@") > name.rfind("]"):
            # xdist adds the group
            name = name.rpartition("@")[0]
        if report.failed and name not in self._names:
            self._names.append(name)
            # at once: a run takes many minutes, and what fails early can be looked at meanwhile
            with self._file.open("a") as file:
                file.write(f"{name}\n")
