"""Manifests in, settings out, and what was wrong with them: for every command that takes `-f`."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer

from transom.cli.cluster import ClusterOptions, describe_server, run_with_client
from transom.cli.credential_masks import mask_passwords
from transom.cli.messages import print_to_stderr
from transom.cli.output import ExitCode, fail, get_columns, wrap_line
from transom.common.counting import format_count
from transom.common.escaping import escape_unprintable
from transom.proxy.secret import REDACTED

if TYPE_CHECKING:
    from transom.kube.client import Client
    from transom.proxy.finding import Finding
    from transom.sources.examination import Examined
    from transom.sources.objects import Objects


def create_files_option(what: str) -> Any:
    """Create the option that names manifests, with its help."""
    return typer.Option("--filename", "-f", metavar="PATH", help=what)


Files = Annotated[list[str], create_files_option("A manifest, a directory of them, or - for the standard input.")]


class Source(ClusterOptions, frozen=True):
    """Where the objects of a command come from: files, else a cluster."""

    filename: Annotated[
        list[str] | None,
        create_files_option("Read a manifest, a directory of manifests, or - for standard input, instead of the cluster."),
    ] = None

    @property
    def named_namespaces(self) -> tuple[tuple[str, str], ...]:
        """None for files: they need no cluster, and Transom's namespace does not exist before its installation."""
        return () if self.filename else super().named_namespaces

    def require_source(self, what: str) -> None:
        """End a command that changes hosts if the user selected none; `what` is the command's name."""
        if not self.filename and not self.context:
            fail(
                f"{what} changes hosts: say which, by -f PATH, or by --context NAME for those of a cluster "
                "(`kubectl config current-context` names the current one)"
            )


def load_and_examine(source: Source) -> "tuple[Objects, Examined]":
    """Read the manifests, without any the objects of the cluster, and examine them."""
    from transom.sources.examination import examine_objects

    if source.filename:
        from transom.sources.directory import load_objects

        for flag, item in (("--context", source.context), ("--kubeconfig", source.kubeconfig)):
            if item:
                fail(f"{flag} is of no use with -f: the objects come from the files")
        objects, server = load_objects(source.filename, source.effective_namespace), None
    else:
        objects, server = run_with_client(
            source, lambda client: _load_from_cluster(client, source.effective_namespace), no_cluster_hint=WITHOUT_CLUSTER
        )
    return objects, examine_objects(objects, datetime.now(UTC), server)


WITHOUT_CLUSTER = "; -f PATH reads manifests instead"


async def _load_from_cluster(client: "Client", namespace: str) -> "tuple[Objects, str]":
    from transom.sources.api_server import DefinitionsMissing, load_objects

    server = client.connection.server
    try:
        objects = await load_objects(client, namespace)
    except DefinitionsMissing as error:
        if not error.objects.proxy:
            raise
        # OpenShift's settings are there to be looked at before anything of Transom is
        print_to_stderr(f"transom: {describe_server(client.connection)}: warning: {error}")
        objects = error.objects
    if not (objects.egress_proxies or objects.proxy or objects.windows_instances or objects.clusters):
        print_to_stderr(
            f"transom: {describe_server(client.connection)}: no EgressProxy, and no WindowsInstance in namespace {namespace}"
        )
    return objects, server


_SETTINGS_OBJECTS: Final = ("EgressProxy/", "Proxy/", "ConfigMap/", "Cluster/", "App/", "HelmRelease/")


def examine_or_fail(source: Source, *, needs_settings: bool = True) -> "tuple[Objects, Examined]":
    """Examine input that must be valid: print findings to stderr, and end the command with 2 on an error.

    Without `needs_settings`, the command only connects to hosts: errors in other objects than WindowsInstances do not end it.
    """
    objects, examined = load_and_examine(source)
    print_findings(examined.findings, sys.stderr)
    errors = [error for error in examined.errors if needs_settings or not error.object.startswith(_SETTINGS_OBJECTS)]
    if errors:
        fail(f"the manifests have {format_count(len(errors), 'error')}", ExitCode.INVALID)
    return objects, examined


def to_json(finding: "Finding") -> dict[str, Any]:
    """Return a finding for JSON, with line and column if it is from a file (else 0)."""
    fields = ("severity", "file", "object", "field", "message", "line", "column")
    return {field: getattr(finding, field) for field in fields} | {"file": mask_passwords(finding.file)}


def print_findings(findings: "Iterable[Finding]", out: TextIO) -> None:
    """Print the findings as a table, each with its line and carets below the value."""
    rows = [(_format_row(finding), finding) for finding in findings]
    if not rows:
        return
    widths = [max(len(cells[column]) for cells in (_HEADINGS, *(cells for cells, _ in rows))) for column in range(4)]
    columns = get_columns(out)
    out.write(_format_line(_HEADINGS, widths, columns))
    for cells, finding in rows:
        out.write(_format_line(cells, widths, columns))
        if finding.excerpt and finding.excerpt.text[finding.excerpt.start : finding.excerpt.end] != REDACTED:
            number, excerpt = str(finding.line), finding.excerpt
            start, end = (len(escape_unprintable(excerpt.text[:place])) for place in (excerpt.start, excerpt.end))
            carets = " " * start + "^" * max(1, end - start)
            out.write(f"    {number} | {escape_unprintable(excerpt.text)}\n    {' ' * len(number)} | {carets}\n")


_HEADINGS = ("SEVERITY", "WHERE", "OBJECT", "FIELD", "MESSAGE")


def _format_row(finding: "Finding") -> tuple[str, ...]:
    where = mask_passwords(finding.file) + (f":{finding.line}:{finding.column}" if finding.line else "")
    return tuple(map(escape_unprintable, (finding.severity, where, finding.object, finding.field, finding.message)))


def _format_line(cells: Sequence[str], widths: Sequence[int], columns: int | None) -> str:
    whole = "  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)), cells[-1]])
    return "".join(f"{line}\n" for line in wrap_line(whole, columns))
