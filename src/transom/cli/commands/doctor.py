"""`transom doctor`: the problems in a cluster or a directory, and the command that fixes each."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.cluster import describe_server, run_with_client
from transom.cli.findings import WITHOUT_CLUSTER, Source
from transom.cli.messages import print_to_stderr
from transom.cli.options import Output, with_option_groups
from transom.cli.output import ExitCode, Format, exit_when_stopped, fail, get_columns, print_data, print_lines, wrap_line
from transom.cli.output_files import Force, refuse_conflicts
from transom.cli.stopping import run_until_stopped
from transom.common.counting import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transom.diagnosis.snapshot import ClusterSnapshot, Diagnosis, SkippedCheck
    from transom.kube.client import Client


@with_option_groups
def doctor(
    source: Source,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle", metavar="FILE", help="Write objects, events and logs to a .tar.gz for support, with secrets masked."
        ),
    ] = None,
    facts: Annotated[
        bool, typer.Option("--facts", help="Include the current state of each host in the bundle, read over SSH.")
    ] = False,
    output: Output = Format.TEXT,
    force: Force = False,
) -> None:
    """Find common problems, and show how to fix them.

    The command checks a cluster, or a directory with -f. It shows the evidence, consequence and fix of each problem. It
    changes nothing, and connects to hosts only with --facts. It lists checks that it could not run, because they require a
    cluster or rights that you do not have.
    """
    from transom.diagnosis.checks import CHECKS, diagnose, list_skipped

    if facts and bundle is None:
        fail("--facts is for the bundle: name its file with --bundle, or see `transom facts`")
    if bundle is not None and bundle.is_file() and not force:
        refuse_conflicts("--bundle", [bundle])
    if source.filename:
        for flag, entry in (("--context", source.context), ("--kubeconfig", source.kubeconfig)):
            if entry:
                fail(f"{flag} is of no use with -f: the objects come from the files")
        if "-" in source.filename:
            fail("-f -: doctor reads its files twice, and the standard input can be read once: write it to a file")
        seen, written = _observe_directory(source, bundle, facts=facts)
    else:
        work = _observe_cluster
        seen, written = run_with_client(
            source, lambda client: work(client, source, bundle, facts=facts), no_cluster_hint=WITHOUT_CLUSTER
        )
    if written:
        print_to_stderr(
            f"transom: wrote {format_count(written, 'file')} to {bundle}: secrets are masked; look through it "
            f"before you send it"
        )
    findings = diagnose(seen)
    left = list_skipped(seen, findings)
    if output is not Format.TEXT:
        made = [check.id for check in CHECKS if check.id not in {item.id for item in left}]
        data = {"source": seen.source, "findings": findings, "unread": seen.unread, "checks": made, "notMade": left}
        print_data(data, output)
    else:
        columns = get_columns(sys.stdout)
        print_lines(*_format_lines(findings, columns))
        for missing in seen.unread:
            print_to_stderr(f"transom: {missing.what} could not be read: {missing.why}")
        print_lines(*(line for sentence in _format_skipped(left) for line in wrap_line(sentence, columns)))
        if source.filename and seen.list_objects("WindowsInstance"):
            files = " ".join(f"-f {path}" for path in source.filename)
            print_lines(f"Hosts are not checked: `transom status {files}` shows the last result of each.")
        wrong = format_count(len(findings), "finding") if findings else "nothing looks wrong"
        made_of = f"{len(CHECKS) - len(left)} of {len(CHECKS)} checks" if left else format_count(len(CHECKS), "check")
        print_lines(f"{seen.source}: {made_of}, {wrong}")
    if findings:
        raise SystemExit(ExitCode.NOT_DONE)
    if seen.unread:
        raise SystemExit(ExitCode.NOT_READ)


def _format_lines(findings: "Iterable[Diagnosis]", columns: int | None) -> "Iterable[str]":
    for item in findings:
        yield f"{item.id}  {item.object}"
        for word, text in (("seen", item.evidence), ("so", item.consequence), ("do", item.command), ("see", item.page)):
            first, *rest = wrap_line(f"  {word:<5} {text}", columns)
            yield from (first, *(f"    {line}" for line in rest))
        yield ""


def _format_skipped(skipped: "Iterable[SkippedCheck]") -> "Iterable[str]":
    """Return a line for each reason why checks were not made, with their names."""
    by_reason: dict[str, list[str]] = {}
    for item in skipped:
        by_reason.setdefault(item.why, []).append(item.id)
    for why, names in by_reason.items():
        verb = why if len(names) == 1 else f"need{why.removeprefix('needs')}"
        yield f"{format_count(len(names), 'check')} {verb}: {', '.join(names)}"


def _observe_directory(source: Source, bundle: Path | None, *, facts: bool) -> "tuple[ClusterSnapshot, int]":
    """Return the observed state, and the number of files in the bundle."""
    from transom.diagnosis.observed_state import observe_values, with_settings
    from transom.sources.directory import iter_values, load_objects

    paths = source.filename or []
    objects = load_objects(paths, source.effective_namespace)
    seen = with_settings(
        observe_values(iter_values(paths), " ".join(paths), source.effective_namespace, datetime.now(UTC)), objects, None
    )
    if bundle is None:
        return seen, 0
    from transom.cli.bundle import read_host_facts, write_bundle

    async def collect() -> int:
        known = await read_host_facts(objects, seen) if facts else {}
        return await write_bundle(None, bundle, seen, known)

    with exit_when_stopped("before the bundle was written"):
        return seen, run_until_stopped(collect())


async def _observe_cluster(
    client: "Client", source: Source, bundle: Path | None, *, facts: bool
) -> "tuple[ClusterSnapshot, int]":
    from transom.cli.observation import observe_for_doctor

    seen, objects = await observe_for_doctor(
        client, describe_server(client.connection), source.effective_namespace, datetime.now(UTC)
    )
    if bundle is None:
        return seen, 0
    from transom.cli.bundle import read_host_facts, write_bundle

    known = await read_host_facts(objects, seen) if facts and objects is not None else {}
    return seen, await write_bundle(client, bundle, seen, known)
