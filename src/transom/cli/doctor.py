"""`transom doctor`: what looks wrong in a cluster or a directory, and the command that mends it."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.cluster import ask, place
from transom.cli.findings import WITHOUT_CLUSTER, Source, counted
from transom.cli.options import Output, grouped
from transom.cli.output import ExitCode, Format, broken, columns_of, fail, print_data, print_lines, tell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from transom.diagnosis import Diagnosis, Observed
    from transom.kube.client import Client


@grouped
def doctor(
    source: Source,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="FILE", help="Also write objects, events and logs, masked, for support: a .tar.gz."),
    ] = None,
    facts: Annotated[
        bool, typer.Option("--facts", help="Into the bundle also what each host looks like now: they are asked over SSH.")
    ] = False,
    output: Output = Format.TEXT,
) -> None:
    """Say what looks wrong, and the command that mends it.

    In a cluster, or with -f in a directory. Nothing is changed, and no host is asked without --facts. Each finding has its
    evidence, what comes of it, and a command. What you may not read is named; the checks that need it are left out.
    """
    from transom.diagnosis.checks import CHECKS, diagnose

    if facts and bundle is None:
        fail("--facts is for the bundle: name its file with --bundle, or see `transom facts`")
    if source.filename:
        for flag, given in (("--context", source.context), ("--kubeconfig", source.kubeconfig)):
            if given:
                fail(f"{flag} is of no use with -f: the objects come from the files")
        if "-" in source.filename:
            fail("-f -: doctor reads its files twice, and the standard input can be read once: write it to a file")
        seen, written = _of_directory(source, bundle, facts=facts)
    else:
        work = _of_cluster
        seen, written = ask(source, lambda client: work(client, source, bundle, facts=facts), otherwise=WITHOUT_CLUSTER)
    if written:
        tell(f"transom: wrote {counted(written, 'file')} to {bundle}: secrets are masked; look through it before you send it")
    found = diagnose(seen)
    if output is not Format.TEXT:
        print_data({"source": seen.source, "findings": found, "unread": seen.unread}, output)
    else:
        print_lines(*_lines(found, columns_of(sys.stdout)))
        for missing in seen.unread:
            tell(f"transom: {missing.what} could not be read: {missing.why}")
        looked = f"{seen.source}: {len(CHECKS)} checks"
        print_lines(f"{looked}, {counted(len(found), 'finding') if found else 'nothing looks wrong'}")
    if found:
        raise SystemExit(ExitCode.NOT_DONE)
    if seen.unread:
        raise SystemExit(ExitCode.NOT_READ)


def _lines(found: "Iterable[Diagnosis]", columns: int | None) -> "Iterable[str]":
    for one in found:
        yield f"{one.id}  {one.object}"
        for word, text in (("seen", one.evidence), ("so", one.consequence), ("do", one.command), ("see", one.page)):
            first, *rest = broken(f"  {word:<5} {text}", columns)
            yield from (first, *(f"    {line}" for line in rest))
        yield ""


def _of_directory(source: Source, bundle: Path | None, *, facts: bool) -> "tuple[Observed, int]":
    """What is known, and how many files were written about it."""
    import asyncio

    from transom.diagnosis.reading import of_values, with_settings
    from transom.sources.directory import load, values

    paths = source.filename or []
    objects = load(paths, source.own)
    seen = with_settings(of_values(values(paths), " ".join(paths), source.own, datetime.now(UTC)), objects, None)
    if bundle is None:
        return seen, 0
    from transom.cli.bundle import host_facts, write_bundle

    async def collect() -> int:
        known = await host_facts(objects, seen) if facts else {}
        return await write_bundle(None, bundle, seen, known)

    return seen, asyncio.run(collect())


async def _of_cluster(client: "Client", source: Source, bundle: Path | None, *, facts: bool) -> "tuple[Observed, int]":
    from transom.cli.observation import seen_by_doctor

    seen, objects = await seen_by_doctor(client, place(client.connection), source.own, datetime.now(UTC))
    if bundle is None:
        return seen, 0
    from transom.cli.bundle import host_facts, write_bundle

    known = await host_facts(objects, seen) if facts and objects is not None else {}
    return seen, await write_bundle(client, bundle, seen, known)
