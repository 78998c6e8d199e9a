"""`transom no-proxy merge`: the merged NO_PROXY of each cluster."""

import sys
from typing import Annotated, Any

import typer

from transom.cli.findings import NAMESPACE, Context, FilesOrCluster, Namespace, counted, examine, print_findings
from transom.cli.output import ExitCode, Format, fail, print_data


def merge(
    filename: FilesOrCluster = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to write it.")] = Format.TEXT,
    namespace: Namespace = NAMESPACE,
    context: Context = None,
) -> None:
    """Print the merged NO_PROXY of each cluster.

    First of the cluster that the manifests describe, then of each Cluster API Cluster.
    """
    objects, examined = examine(filename, namespace, context)
    # the hosts have no part in the lists
    findings = [finding for finding in examined.findings if not finding.object.startswith("WindowsInstance/")]
    print_findings(findings, sys.stderr)
    errors = sum(finding.severity == "error" for finding in findings)
    if errors:
        fail(f"the settings have {counted(errors, 'error')}", ExitCode.INVALID)
    lists: list[dict[str, Any]] = []
    if objects.proxy or any(item.metadata.name == "cluster" for item in objects.egress_proxies):
        lists.append({"cluster": None, "noProxy": examined.settings.own.no_proxy if examined.settings.own else ""})
    for (space, name), egress in examined.settings.clusters.items():
        lists.append({"cluster": f"{space}/{name}", "noProxy": egress.no_proxy if egress else ""})
    if output is not Format.TEXT:
        print_data(lists, output)
        return
    if not lists:
        sys.stderr.write("transom: there are no settings, and no Cluster: no list\n")
    for entry in lists:
        label = f"{entry['cluster'] or 'this cluster'}: " if len(lists) > 1 else ""
        sys.stdout.write(f"{label}{entry['noProxy']}\n")
