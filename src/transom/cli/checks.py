"""What `transom verify host` and `transom verify cluster` say of their checks: lines, data, JUnit's XML, the exit code."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from transom.cli.output import ExitCode, Format, fail, print_data, print_lines

if TYPE_CHECKING:
    from transom.checked import Checked

JUnit = Annotated[Path | None, typer.Option("--junit", help="A file that gets the checks as JUnit's XML as well.")]


class Suite(msgspec.Struct, frozen=True):
    """What was checked, `host` or `cluster`, and its name."""

    of: str
    name: str


def tell(one: "Checked") -> None:
    """Say what became of a check, for people, who may wait minutes for the next one, also in the log of a job."""
    print_lines(f"{one.verdict:<14}  {one.id:<18}  {one.seconds:5.1f} s  {one.claim}: {one.seen}")
    if one.verdict == "fail" and one.otherwise:
        print_lines(f"{'':<14}  so: {one.otherwise}")
    sys.stdout.flush()


def ended(data: Mapping[str, Any], found: "tuple[Checked, ...]", suite: Suite, report: Path | None, output: Format) -> None:
    """Write what is to be written of the checks; ends the command with 1 where one has failed."""
    if report is not None:
        write("--junit", report, lambda _: junit(suite, found).encode())
    if output is not Format.TEXT:
        print_data({**data, "checks": found}, output)
    else:
        print_lines(_summary(found))
    if any(one.verdict == "fail" for one in found):
        raise SystemExit(ExitCode.NOT_DONE)


def _summary(found: "tuple[Checked, ...]") -> str:
    counts = {verdict: [one.id for one in found if one.verdict == verdict] for verdict in ("pass", "not applicable", "fail")}
    told = ", ".join(f"{len(ids)} {verdict}" for verdict, ids in counts.items() if ids)
    return f"{len(found)} checks: {told}" + (f" ({', '.join(counts['fail'])})" if counts["fail"] else "")


def write(option: str, path: Path, content: Callable[[bytes], bytes]) -> None:
    """Write a file, made of what it contained; ends the command where that cannot be done."""
    try:
        path.write_bytes(content(path.read_bytes() if path.exists() else b""))
    except OSError as error:
        fail(f"{option} {path}: cannot be written: {error.strerror}", ExitCode.NOT_DONE)
    except (msgspec.MsgspecError, UnicodeError) as error:
        fail(f"{option} {path}: holds something else than what was seen: {error}", ExitCode.NOT_DONE)


def junit(suite: Suite, found: "tuple[Checked, ...]") -> str:
    """The checks as JUnit's XML: a failure, or a test that was skipped, says what was seen."""
    from xml.etree import ElementTree

    from transom.shown import shown

    failures, skipped = (sum(one.verdict == verdict for one in found) for verdict in ("fail", "not applicable"))
    counts = {"tests": str(len(found)), "failures": str(failures), "skipped": str(skipped)}
    made = ElementTree.Element("testsuite", {"name": f"transom verify {suite.of} {suite.name}"} | counts)
    for one in found:
        case = ElementTree.SubElement(made, "testcase", classname=f"transom.{suite.of}", name=one.id, time=f"{one.seconds:.3f}")
        if one.verdict != "pass":
            kind = "failure" if one.verdict == "fail" else "skipped"
            ElementTree.SubElement(case, kind, message=f"{one.claim}: {shown(one.seen)}").text = one.source
    return ElementTree.tostring(made, encoding="unicode", xml_declaration=True) + "\n"
