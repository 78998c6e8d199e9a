"""Manifests in, settings out, and what was wrong with them: for every command that takes `-f`."""

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from transom.cli.output import ExitCode, fail

if TYPE_CHECKING:
    from transom.proxy.finding import Finding
    from transom.sources.examination import Examined
    from transom.sources.objects import Objects

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
Files = Annotated[
    list[str],
    typer.Option("--filename", "-f", metavar="PATH", help="A manifest, a directory of them, or - for the standard input."),
]
FilesOrCluster = Annotated[
    list[str] | None,
    typer.Option(
        "--filename",
        "-f",
        metavar="PATH",
        help="A manifest, a directory of them, or - for the standard input; without it, the cluster of the kubeconfig.",
    ),
]
Context = Annotated[str | None, typer.Option("--context", metavar="NAME", help="The context of the kubeconfig.")]


def namespace_name(value: str) -> str:
    """The value of `--namespace`, as the API server takes it: a DNS-1123 label (RFC 1123). Raises BadParameter."""
    if not _LABEL.fullmatch(value):
        raise typer.BadParameter(f"{value!r} is no namespace: lower-case letters, digits and -, at most 63")
    return value


Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="Transom's namespace: where objects without one are.",
        callback=namespace_name,
    ),
]
NAMESPACE = "transom-system"


def examine(paths: Sequence[str] | None, namespace: str, context: str | None = None) -> "tuple[Objects, Examined]":
    """Read the manifests, without `paths` the objects of the cluster, and examine them."""
    from transom.sources.examination import examine

    if paths:
        from transom.sources.directory import load

        if context:
            fail("--context is of no use with -f: the objects come from the files")
        objects, server = load(paths, namespace), None
    else:
        objects, server = _from_cluster(namespace, context)
    return objects, examine(objects, datetime.now(UTC), server)


def _from_cluster(namespace: str, context: str | None) -> "tuple[Objects, str]":
    import asyncio

    from transom.kube.client import Client
    from transom.kube.connection import connect
    from transom.kube.errors import ApiError, ConfigurationError
    from transom.sources.api_server import load

    async def read() -> "tuple[Objects, str]":
        connection = connect(context=context)
        try:
            return await load(Client(connection), namespace), connection.server
        finally:
            await connection.close()

    try:
        return asyncio.run(read())
    except ConfigurationError as error:
        fail(f"{error}; -f PATH reads manifests instead", ExitCode.INVALID)
    except ApiError as error:
        fail(str(error), ExitCode.NOT_DONE)


def examine_or_fail(paths: Sequence[str] | None, namespace: str, context: str | None = None) -> "tuple[Objects, Examined]":
    """The same for a command that needs valid input: what is wrong goes to stderr, and an error ends the command with 2."""
    objects, examined = examine(paths, namespace, context)
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
    out.write(_line(_HEADINGS, widths))
    for cells, finding in rows:
        out.write(_line(cells, widths))
        if finding.excerpt:
            number, excerpt = str(finding.line), finding.excerpt
            carets = " " * excerpt.start + "^" * max(1, excerpt.end - excerpt.start)
            out.write(f"    {number} | {excerpt.text}\n    {' ' * len(number)} | {carets}\n")


_HEADINGS = ("SEVERITY", "WHERE", "OBJECT", "FIELD", "MESSAGE")


def _row(finding: "Finding") -> tuple[str, ...]:
    where = finding.file + (f":{finding.line}:{finding.column}" if finding.line else "")
    return finding.severity, where, finding.object, finding.field, finding.message


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)), cells[-1]]) + "\n"
