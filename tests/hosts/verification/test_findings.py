"""Which tests hold each thing that was found wrong, and what they are tried with."""

from pathlib import Path

from tests.hosts.verification.findings import findings

import transom


def test_the_findings_name_tests_that_there_are() -> None:
    for finding in findings().values():
        assert finding.tests
        for place, _, name in (test.partition("::") for test in (*finding.tests, *finding.benches)):
            assert f"def {name}(" in Path(place).read_text("utf-8"), f"{place}::{name}"


def test_what_they_are_tried_with_is_in_the_code_once() -> None:
    """`benchmarks.findings` puts the code of before in its place."""
    package = Path(transom.__file__).parent
    for name, finding in findings().items():
        assert finding.before
        for before in finding.before:
            assert (package / before.file).read_text("utf-8").count(before.line) == 1, f"{name}: {before.file}: {before.line}"
