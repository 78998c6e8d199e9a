"""`transom validate`: everything wrong with the settings, at once."""

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.findings import Source, load_and_examine, print_findings, to_json
from transom.cli.options import Output, with_option_groups
from transom.cli.output import ExitCode, Format, print_data, print_lines
from transom.cli.stopping import run_until_stopped
from transom.common.counting import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from transom.proxy.finding import Finding
    from transom.proxy.settings import ResolvedSettings
    from transom.sources.objects import Objects


@with_option_groups
def validate(
    source: Source,
    output: Output = Format.TEXT,
    probe: Annotated[bool, typer.Option("--probe", help="Test the readiness endpoints through the proxy.")] = False,
) -> None:
    """Validate the settings and report all errors at once. With -f, only --probe requires a network."""
    objects, examined = load_and_examine(source)
    findings = [*examined.findings, *(_iter_unplaced(objects) if source.filename else ())]
    if probe and not examined.errors:
        findings += _probe_endpoints(objects, examined.settings)
    counts = Counter(finding.severity for finding in findings)
    if output is Format.TEXT:
        print_findings(findings, sys.stdout)
        problems = ", ".join(format_count(counts[severity], severity) for severity in ("error", "warning") if counts[severity])
        summary = _format_summary(objects)
        print_lines(
            f"{summary or 'no settings'}: {problems or ('nothing is wrong' if summary else 'there was nothing to check')}"
        )
    else:
        print_data([to_json(finding) for finding in findings], output)
    if counts["error"]:
        raise SystemExit(ExitCode.INVALID)


def _probe_endpoints(objects: "Objects", settings: "ResolvedSettings") -> "Iterator[Finding]":
    """Try the endpoints of the cluster that the manifests describe; a failure is an error, with policy Report a warning."""
    from transom.http.readiness import probe
    from transom.proxy import layers
    from transom.proxy.url import parse

    base = layers.build_base_layer(objects)
    if base is None or settings.own is None:
        return
    if not settings.own.readiness_endpoints:
        message = "--probe: no endpoint to test; add one that hosts reach through the proxy"
        yield base.source.place.build_warning(("spec", "readinessEndpoints"), message)
    report = base.source.place.build_error if settings.own.readiness_policy == "Gate" else base.source.place.build_warning
    for index, answer in enumerate(run_until_stopped(probe(settings.own))):
        if answer.failure:
            message = f"{parse(answer.endpoint).redacted} through the proxy, 3 tries: {answer.failure}"
            yield report(("spec", "readinessEndpoints", index), message)


def _iter_unplaced(objects: "Objects") -> "Iterator[Finding]":
    """One warning for all of them."""
    if objects.unplaced:
        first, more = objects.unplaced[0], len(objects.unplaced) - 1
        also = f", nor {'does' if more == 1 else 'do'} {format_count(more, 'more object')}" if more else ""
        message = f"names no namespace{also}: `kubectl apply` would use that of its context, but Transom reads it from "
        yield first.build_warning(("metadata",), message + objects.namespace)


def _format_summary(objects: "Objects") -> str:
    kinds = (
        ("Proxy", "Proxies", 1 if objects.proxy else 0),
        ("EgressProxy", "EgressProxies", len(objects.egress_proxies)),
        ("Cluster", "Clusters", len(objects.clusters)),
        ("WindowsInstance", "WindowsInstances", len(objects.windows_instances)),
    )
    return ", ".join(f"{count:,} {item if count == 1 else many}" for item, many, count in kinds if count)
