"""`transom no-proxy merge`: the merged NO_PROXY of each cluster."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transom.cli.findings import Source, counted, examine, print_findings
from transom.cli.options import Output, grouped
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines, tell

if TYPE_CHECKING:
    from transom.proxy.merging import MergedNoProxy


@grouped
def merge(
    source: Source,
    output: Output = Format.TEXT,
    reasons: Annotated[bool, typer.Option("--reasons", help="Each item on a line of its own, with its reason.")] = False,
) -> None:
    """Print the merged NO_PROXY of each cluster.

    First of the cluster that the manifests describe, then of each Cluster API Cluster. As JSON or YAML with each item's reason.
    """
    from transom.proxy.settings import merged_no_proxy

    objects, examined = examine(source)
    # the hosts have no part in the lists
    findings = [finding for finding in examined.findings if not finding.object.startswith("WindowsInstance/")]
    print_findings(findings, sys.stderr)
    errors = sum(finding.severity == "error" for finding in findings)
    if errors:
        fail(f"the settings have {counted(errors, 'error')}", ExitCode.INVALID)
    settings = examined.settings
    lists: list[dict[str, Any]] = []
    if objects.proxy or any(item.metadata.name == "cluster" for item in objects.egress_proxies):
        lists.append(_entry(None, merged_no_proxy(objects, settings.networks)))
    for cluster in objects.clusters:
        name = f"{cluster.metadata.namespace}/{cluster.metadata.name}"
        lists.append(_entry(name, merged_no_proxy(objects, settings.networks, cluster)))
    if output is not Format.TEXT:
        print_data(lists, output)
        return
    if not lists:
        tell("transom: there are no settings, and no Cluster: no list")
    for entry in lists:
        label = f"{entry['cluster'] or 'this cluster'}: " if len(lists) > 1 else ""
        print_lines(f"{label}{entry['noProxy']}")
        if reasons:
            print_lines(*(f"  {one['item']}: {one['reason']}" for one in entry["items"]))


def _entry(cluster: str | None, merged: "MergedNoProxy") -> dict[str, Any]:
    items = [{"item": item, "reason": reason} for item, reason in merged.reasons.items()]
    return {"cluster": cluster, "noProxy": merged.text, "items": items}
