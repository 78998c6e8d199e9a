"""What `transom verify host` and `transom verify cluster` say of their checks: lines, data, JUnit's XML, the exit code."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from transom.cli.messages import print_to_stderr as tell_line
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines
from transom.cli.stopping import get_signal_name, mark_stop_reported
from transom.common.regular_files import read_regular_file

if TYPE_CHECKING:
    from transom.common.check_results import CheckResult

_SUITE = b'name="transom verify '


def _check_report_file(path: Path | None) -> Path | None:
    """Return the value of `--junit`; reject another program's file before the checks begin."""
    if path is not None and path.is_file() and (content := read_regular_file(path)) and _SUITE not in content:
        fail(f"--junit {path}: exists and is not a report of `transom verify`: name another file, or remove this one")
    return path


JUnit = Annotated[
    Path | None,
    typer.Option("--junit", help="Write the checks to a file as JUnit XML.", callback=_check_report_file),
]


class Suite(msgspec.Struct, frozen=True):
    """What was checked, `host` or `cluster`, and its name."""

    of: str
    name: str


def report_check(check: "CheckResult") -> None:
    """Say what became of a check, for people, who may wait minutes for the next one, also in the log of a job."""
    print_lines(f"{check.verdict:<14}  {check.id:<18}  {check.seconds:5.1f} s  {check.claim}: {check.seen}")
    if check.verdict == "fail" and check.otherwise:
        print_lines(f"{'':<14}  so: {check.otherwise}")
    sys.stdout.flush()


def print_results_and_exit(
    data: Mapping[str, Any], checks: "tuple[CheckResult, ...]", suite: Suite, report: Path | None, output: Format
) -> None:
    """Write the results of the checks; end the command with 1 if one failed."""
    if report is not None:
        update_file("--junit", report, lambda _: render_junit(suite, checks).encode())
    if output is not Format.TEXT:
        print_data({**data, "checks": checks, "stopped": False}, output)
    else:
        print_lines(_format_summary(checks))
    if any(item.verdict == "fail" for item in checks):
        raise SystemExit(ExitCode.NOT_DONE)


def print_partial_results(
    data: Mapping[str, Any], checks: "Sequence[CheckResult]", *, has_output_files: bool, output: Format
) -> None:
    """Write the checks that were made before a signal stopped the rest; no file gets them, which would look whole."""
    if has_output_files:
        tell_line("transom: stopped: --junit and --record are not written")
    if output is not Format.TEXT:
        print_data({**data, "checks": checks, "stopped": True}, output)
    else:
        print_lines(f"stopped by {get_signal_name()}: {_format_summary(tuple(checks))}")
    mark_stop_reported()


def _format_summary(checks: "tuple[CheckResult, ...]") -> str:
    counts = {
        verdict: [item.id for item in checks if item.verdict == verdict] for verdict in ("pass", "not applicable", "fail")
    }
    summary = ", ".join(f"{len(ids)} {verdict}" for verdict, ids in counts.items() if ids)
    return f"{len(checks)} checks: {summary}" + (f" ({', '.join(counts['fail'])})" if counts["fail"] else "")


def update_file(option: str, path: Path, content: Callable[[bytes], bytes]) -> None:
    """Write a file, made of what it contained; ends the command where that cannot be done."""
    try:
        path.write_bytes(content(read_regular_file(path) if path.exists() else b""))
    except OSError as error:
        fail(f"{option} {path}: cannot be written: {error.strerror}", ExitCode.NOT_DONE)
    except (msgspec.MsgspecError, UnicodeError) as error:
        fail(f"{option} {path}: holds something else than what was seen: {error}", ExitCode.NOT_DONE)


def render_junit(suite: Suite, checks: "tuple[CheckResult, ...]") -> str:
    """Render the checks as JUnit's XML: failed and skipped tests have the observed result."""
    from xml.etree import ElementTree

    from transom.common.escaping import escape_unprintable

    failures, skipped = (sum(item.verdict == verdict for item in checks) for verdict in ("fail", "not applicable"))
    counts = {"tests": str(len(checks)), "failures": str(failures), "skipped": str(skipped)}
    made = ElementTree.Element("testsuite", {"name": f"transom verify {suite.of} {suite.name}"} | counts)
    for entry in checks:
        case = ElementTree.SubElement(
            made, "testcase", classname=f"transom.{suite.of}", name=entry.id, time=f"{entry.seconds:.3f}"
        )
        if entry.verdict != "pass":
            kind = "failure" if entry.verdict == "fail" else "skipped"
            ElementTree.SubElement(case, kind, message=f"{entry.claim}: {escape_unprintable(entry.seen)}").text = entry.source
    return ElementTree.tostring(made, encoding="unicode", xml_declaration=True) + "\n"
