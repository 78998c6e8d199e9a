"""Whether the tests fail with the code of before, for each thing that was found wrong.

`python -m benchmarks.findings [WORD …] [--wine]`: of all findings, or of those with one of these words in their names; with
`--wine` on Wine, too. What is found, and by which tests, stands in `tests/hosts/verification/findings.yaml` and
`tests/capi/findings.yaml`.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.mutants import ROOT, changed
from tests.hosts.verification.findings import Before, Finding, findings

SECONDS: Final = 1200
"""In which the tests of a finding end, also where something waits for what does not come."""


def failed(tests: Sequence[str], source: Path | None, *, wine: bool) -> tuple[str, ...]:
    """The names of the tests that fail; those of Wine where it is asked for. Raises CalledProcessError."""
    environment = os.environ | ({"PYTHONPATH": str(source)} if source else {})
    with TemporaryDirectory() as directory:
        list_of_failures = Path(directory) / "failures"
        command = [sys.executable, "-m", "pytest", *tests, "-q", "-n", "0", "-p", "no:cacheprovider"]
        command += ["--failures", str(list_of_failures), *(() if wine else ("-m", "not lab"))]
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=SECONDS)
        if ended.returncode not in (0, 1):
            raise subprocess.CalledProcessError(ended.returncode, command, ended.stdout, ended.stderr)
        return tuple(list_of_failures.read_text("utf-8").splitlines())


def tried(finding: Finding, before: Before, *, wine: bool) -> tuple[str, ...]:
    """The tests that fail with that in the code."""
    with changed((before.file, before.line, before.becomes)) as source:
        return failed(finding.tests, source, wine=wine)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--wine", action="store_true")
    chosen = parser.parse_args()
    missed = 0
    for name, finding in findings().items():
        if chosen.words and not any(word.casefold() in name.casefold() for word in chosen.words):
            continue
        print(name, flush=True)
        # a test that fails anyway finds nothing
        if well := failed((*finding.tests, *finding.benches), None, wine=chosen.wine):
            print(f"  FAILS as it is: {', '.join(map(_short, well))}", flush=True)
            missed += 1
            continue
        for before in finding.before:
            seen = tried(finding, before, wine=chosen.wine)
            missed += not seen
            print(f"  {'found ' if seen else 'MISSED'} {before.file}: {', '.join(map(_short, seen))}", flush=True)
    sys.exit(1 if missed else 0)


def _short(test: str) -> str:
    return re.sub(r"^.*/", "", test)


if __name__ == "__main__":
    main()
