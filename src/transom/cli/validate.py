"""`transom validate`: everything wrong with the settings, at once."""

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.findings import Source, as_json, counted, examine, print_findings
from transom.cli.options import Output, grouped
from transom.cli.output import ExitCode, Format, print_data, print_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transom.proxy.finding import Finding
    from transom.proxy.settings import Effective
    from transom.sources.objects import Objects


@grouped
def validate(
    source: Source,
    output: Output = Format.TEXT,
    probe: Annotated[bool, typer.Option("--probe", help="Try the readiness endpoints through the proxy.")] = False,
) -> None:
    """Say everything that is wrong with the settings, at once. Offline, but for --probe."""
    objects, examined = examine(source)
    findings = [*examined.findings, *(_unplaced(objects) if source.filename else ())]
    if probe and not examined.errors:
        findings += _probed(objects, examined.settings)
    counts = Counter(finding.severity for finding in findings)
    if output is Format.TEXT:
        print_findings(findings, sys.stdout)
        found = ", ".join(counted(counts[severity], severity) for severity in ("error", "warning") if counts[severity])
        summary = _summary(objects)
        print_lines(f"{summary or 'no settings'}: {found or ('nothing is wrong' if summary else 'there was nothing to check')}")
    else:
        print_data([as_json(finding) for finding in findings], output)
    if counts["error"]:
        raise SystemExit(ExitCode.INVALID)


def _probed(objects: "Objects", settings: "Effective") -> "Iterator[Finding]":
    """Try the endpoints of the cluster that the manifests describe; a failure is an error, with policy Report a warning."""
    import asyncio

    from transom.proxy import layers
    from transom.proxy.url import parse
    from transom.readiness import probe

    base = layers.base(objects)
    if base is None or settings.own is None:
        return
    report = base.source.place.error if settings.own.readiness_policy == "Gate" else base.source.place.warning
    for index, answer in enumerate(asyncio.run(probe(settings.own))):
        if answer.failure:
            message = f"{parse(answer.endpoint).redacted} through the proxy, 3 tries: {answer.failure}"
            yield report(("spec", "readinessEndpoints", index), message)


def _unplaced(objects: "Objects") -> "Iterator[Finding]":
    """One warning for all of them."""
    if objects.unplaced:
        first, more = objects.unplaced[0], len(objects.unplaced) - 1
        also = f", nor {'does' if more == 1 else 'do'} {counted(more, 'more object')}" if more else ""
        message = f"names no namespace{also}: `kubectl apply` would put it into that of its context, and it is looked for in "
        yield first.warning(("metadata",), message + objects.namespace)


def _summary(objects: "Objects") -> str:
    kinds = (
        ("Proxy", 1 if objects.proxy else 0),
        ("EgressProxy", len(objects.egress_proxies)),
        ("Cluster", len(objects.clusters)),
        ("WindowsInstance", len(objects.windows_instances)),
    )
    return ", ".join(f"{count} {kind}" for kind, count in kinds if count)
