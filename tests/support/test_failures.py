"""What scripts/test runs once more."""

from pathlib import Path

from pytest import TestReport
from tests.support.failures import Failures


def report(name: str, phase: str, outcome: str) -> TestReport:
    return TestReport(name, ("tests/test_x.py", 1, name), {}, outcome, None, phase)  # type: ignore[arg-type]


def test_each_failed_test_is_written_once_as_pytest_reads_it(tmp_path: Path) -> None:
    failures = Failures(tmp_path / "failures")
    failures.pytest_sessionstart()
    for item in (
        report("tests/test_x.py::test_good", "call", "passed"),
        report("tests/test_x.py::test_bad[a b]", "call", "failed"),
        report("tests/test_x.py::test_bad[a b]", "teardown", "failed"),
        report("tests/test_x.py::test_unprepared@control_plane 1", "setup", "failed"),
        report("tests/test_x.py::test_left_out", "setup", "skipped"),
    ):
        failures.pytest_runtest_logreport(item)
    assert (tmp_path / "failures").read_text().splitlines() == [
        "tests/test_x.py::test_bad[a b]",
        "tests/test_x.py::test_unprepared",
    ]
