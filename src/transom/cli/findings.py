"""Manifests in, settings out, and what was wrong with them: for every command that takes `-f`."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from transom.cli.cluster import ClusterOptions, ask, place
from transom.cli.output import ExitCode, broken, columns_of, fail, tell
from transom.proxy.secret import REDACTED
from transom.shown import shown

if TYPE_CHECKING:
    from transom.kube.client import Client
    from transom.proxy.finding import Finding
    from transom.sources.examination import Examined
    from transom.sources.objects import Objects


def files(what: str) -> Any:
    """The option that names manifests, with its help."""
    return typer.Option("--filename", "-f", metavar="PATH", help=what)


Files = Annotated[list[str], files("A manifest, a directory of them, or - for the standard input.")]


class Source(ClusterOptions, frozen=True):
    """Where the objects of a command come from: files, else a cluster."""

    filename: Annotated[
        list[str] | None,
        files("A manifest, a directory of them, or - for the standard input; without it, the cluster of the kubeconfig."),
    ] = None

    @property
    def named_namespaces(self) -> tuple[tuple[str, str], ...]:
        """None where files are read: they need no cluster, and before Transom is installed its namespace is not there."""
        return () if self.filename else super().named_namespaces

    def insist(self, what: str) -> None:
        """End a command that changes hosts where nobody said which hosts; `what` is the command's name."""
        if not self.filename and not self.context:
            fail(
                f"{what} changes hosts: say which, by -f PATH, or by --context NAME for those of a cluster "
                "(`kubectl config current-context` names the current one)"
            )


def examine(source: Source) -> "tuple[Objects, Examined]":
    """Read the manifests, without any the objects of the cluster, and examine them."""
    from transom.sources.examination import examine

    if source.filename:
        from transom.sources.directory import load

        for flag, given in (("--context", source.context), ("--kubeconfig", source.kubeconfig)):
            if given:
                fail(f"{flag} is of no use with -f: the objects come from the files")
        objects, server = load(source.filename, source.own), None
    else:
        objects, server = ask(source, lambda client: _from_cluster(client, source.own), otherwise=WITHOUT_CLUSTER)
    return objects, examine(objects, datetime.now(UTC), server)


WITHOUT_CLUSTER = "; -f PATH reads manifests instead"


async def _from_cluster(client: "Client", namespace: str) -> "tuple[Objects, str]":
    from transom.sources.api_server import DefinitionsMissing, load

    server = client.connection.server
    try:
        objects = await load(client, namespace)
    except DefinitionsMissing as error:
        if not error.objects.proxy:
            raise
        # OpenShift's settings are there to be looked at before anything of Transom is
        tell(f"transom: {place(client.connection)}: warning: {error}")
        objects = error.objects
    if not (objects.egress_proxies or objects.proxy or objects.windows_instances or objects.clusters):
        tell(f"transom: {place(client.connection)}: no EgressProxy, and no WindowsInstance in namespace {namespace}")
    return objects, server


def examine_or_fail(source: Source) -> "tuple[Objects, Examined]":
    """The same for a command that needs valid input: what is wrong goes to stderr, and an error ends the command with 2."""
    objects, examined = examine(source)
    print_findings(examined.findings, sys.stderr)
    if examined.errors:
        fail(f"the manifests have {counted(len(examined.errors), 'error')}", ExitCode.INVALID)
    return objects, examined


def counted(number: int, noun: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def as_json(finding: "Finding") -> dict[str, Any]:
    """A finding as JSON has it, with line and column where there is a text (0 where there is none)."""
    fields = ("severity", "file", "object", "field", "message", "line", "column")
    return {field: getattr(finding, field) for field in fields}


def print_findings(findings: "Iterable[Finding]", out: TextIO) -> None:
    """The findings as a table, each with the offending line and carets below what is meant."""
    rows = [(_row(finding), finding) for finding in findings]
    if not rows:
        return
    widths = [max(len(cells[column]) for cells in (_HEADINGS, *(cells for cells, _ in rows))) for column in range(4)]
    columns = columns_of(out)
    out.write(_line(_HEADINGS, widths, columns))
    for cells, finding in rows:
        out.write(_line(cells, widths, columns))
        if finding.excerpt and finding.excerpt.text[finding.excerpt.start : finding.excerpt.end] != REDACTED:
            number, excerpt = str(finding.line), finding.excerpt
            start, end = (len(shown(excerpt.text[:place])) for place in (excerpt.start, excerpt.end))
            carets = " " * start + "^" * max(1, end - start)
            out.write(f"    {number} | {shown(excerpt.text)}\n    {' ' * len(number)} | {carets}\n")


_HEADINGS = ("SEVERITY", "WHERE", "OBJECT", "FIELD", "MESSAGE")


def _row(finding: "Finding") -> tuple[str, ...]:
    where = finding.file + (f":{finding.line}:{finding.column}" if finding.line else "")
    return tuple(map(shown, (finding.severity, where, finding.object, finding.field, finding.message)))


def _line(cells: Sequence[str], widths: Sequence[int], columns: int | None) -> str:
    whole = "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)), cells[-1]])
    return "".join(f"{line}\n" for line in broken(whole, columns))
