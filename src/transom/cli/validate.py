"""`transom validate`: everything wrong with the settings, at once."""

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from transom.cli.findings import NAMESPACE, Context, FilesOrCluster, Namespace, as_json, counted, examine, print_findings
from transom.cli.output import ExitCode, Format, print_data

if TYPE_CHECKING:
    from transom.sources.objects import Objects


def validate(
    filename: FilesOrCluster = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.TEXT,
    namespace: Namespace = NAMESPACE,
    context: Context = None,
    probe: Annotated[bool, typer.Option("--probe", help="Try the readiness endpoints through the proxy.")] = False,
) -> None:
    """Say everything that is wrong with the settings, at once. Offline, but for --probe."""
    objects, examined = examine(filename, namespace, context)
    findings = list(examined.findings)
    if probe and not examined.errors:
        from transom.cli.probe import probe_endpoints

        findings += probe_endpoints(objects, examined.settings)
    counts = Counter(finding.severity for finding in findings)
    if output is Format.TEXT:
        print_findings(findings, sys.stdout)
        found = ", ".join(counted(counts[severity], severity) for severity in ("error", "warning") if counts[severity])
        sys.stdout.write(f"{_summary(objects)}: {found or 'nothing is wrong'}\n")
    else:
        print_data([as_json(finding) for finding in findings], output)
    if counts["error"]:
        raise SystemExit(ExitCode.INVALID)


def _summary(objects: "Objects") -> str:
    kinds = (
        ("Proxy", 1 if objects.proxy else 0),
        ("EgressProxy", len(objects.egress_proxies)),
        ("Cluster", len(objects.clusters)),
        ("WindowsInstance", len(objects.windows_instances)),
    )
    return ", ".join(f"{count} {kind}" for kind, count in kinds if count) or "no settings"
