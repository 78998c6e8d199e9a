"""Which tests hold each difference between Windows and the benches that was found."""

from pathlib import Path

import yaml


def test_the_findings_name_tests_that_there_are() -> None:
    findings: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("findings.yaml").read_text("utf-8"))
    for tests in findings.values():
        for place, _, name in (test.partition("::") for test in tests):
            assert f"def {name}(" in Path(place).read_text("utf-8"), f"{place}::{name}"
