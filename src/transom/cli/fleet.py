"""The objects of workload clusters, from manifests, for the commands that print or write them."""

import contextlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from transom.cli.output import ExitCode, Format, fail, print_data, print_lines, saying_on_ctrl_c, tell

if TYPE_CHECKING:
    from transom.capi.objects import FleetObject
    from transom.cli.findings import Source
    from transom.kube.client import Client
    from transom.proxy.objects import Cluster
    from transom.proxy.settings import Effective
    from transom.sources.objects import Objects


class TemplateReport(StrEnum):
    """In which form the entries of machine templates are printed."""

    ENTRIES = "entries"
    CLUSTER_CLASS = "cluster-class"


def fleet_objects(objects: "Objects", settings: "Effective") -> "Iterator[tuple[Cluster, tuple[FleetObject, ...]]]":
    """The objects of each cluster that has any. What a cluster's id does not allow the examination has said."""
    from transom.capi.identity import InvalidIdentity
    from transom.capi.objects import key_of, namesakes, wanted

    later = namesakes(objects.clusters)
    for cluster in objects.clusters:
        egress = settings.clusters[key_of(cluster)]
        if egress is None or key_of(cluster) in later:
            continue
        with contextlib.suppress(InvalidIdentity):
            made = wanted(cluster, egress, windows=key_of(cluster) in objects.windows_clusters)
            if made:
                yield cluster, made


def app_references(objects: "Objects", settings: "Effective") -> Iterator[dict[str, Any]]:
    """For each App and HelmRelease of the settings, what there is to put into it."""
    from transom.capi.objects import key_of
    from transom.capi.values import API_VERSIONS, cluster_of, references

    apps = dict.fromkeys(app for egress in settings.clusters.values() if egress is not None for app in egress.apps)
    for app in apps:
        found = ((one, settings.clusters[key_of(one)]) for one in objects.clusters)
        having = [one for one, egress in found if egress is not None and app in egress.apps]
        if app.kind not in API_VERSIONS:
            # the examination has said so
            continue
        cluster = cluster_of(app, having)
        if cluster is None:
            _warn(f"{app.kind}/{app.namespace}/{app.name} of spec.apps: no one Cluster in its namespace that it belongs to")
        else:
            found_for = settings.clusters[key_of(cluster)]
            yield references(app, cluster, own=found_for is not None and found_for.own_values)


def machine_templates(
    objects: "Objects", settings: "Effective", form: TemplateReport, *, show_secrets: bool
) -> Iterator[dict[str, Any]]:
    """For each cluster, what there is to commit where its templates, or its class, are kept in Git."""
    from transom.capi.commit import class_patch_of, template_objects
    from transom.capi.identity import InvalidIdentity
    from transom.capi.objects import key_of

    for cluster in objects.clusters:
        egress = settings.clusters[key_of(cluster)]
        if egress is None:
            continue
        try:
            if form is TemplateReport.ENTRIES:
                yield from template_objects(cluster, egress, show_secrets=show_secrets)
            elif (patch := class_patch_of(cluster, egress)) is not None:
                name = f"<class of {cluster.metadata.name}>"
                kind = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": name}}
                yield {**kind, "spec": {"patches": [patch]}}
        except InvalidIdentity:
            # the examination has said so
            continue


def _warn(message: str) -> None:
    tell(f"transom: warning: {message}")


def write_objects(source: "Source", output: Format, *, dry_run: bool) -> None:
    """`apply --objects` and `diff --objects`: write, or compare, and report; exit code 1 where something is left to do."""
    from transom.cli.cluster import ask
    from transom.cli.findings import counted, print_findings
    from transom.controllers.clusters.bootstrap import ObjectsReport, with_clusters_of, write
    from transom.sources.directory import load
    from transom.sources.examination import examine

    paths = source.filename
    if not paths or not source.context:
        fail("--objects needs -f PATH, and --context NAME, so that it is said which cluster is written to")

    async def run(client: "Client") -> ObjectsReport:
        objects = await with_clusters_of(client, load(paths, source.own))
        examined = examine(objects, datetime.now(UTC), client.connection.server)
        print_findings(examined.findings, sys.stderr)
        if examined.errors:
            fail(f"the manifests have {counted(len(examined.errors), 'error')}", ExitCode.INVALID)
        return await write(client, objects, examined.settings, dry_run=dry_run)

    with saying_on_ctrl_c("stopped by Ctrl-C before anything was written"):
        report = ask(source, run)
    if not report.objects and not report.errors:
        tell("transom: no Cluster of the manifests gets objects by these settings; Clusters of the server alone do not count")
    if output is Format.TEXT:
        for one in report.objects:
            print_lines(f"{_WORDS[one.result][dry_run]:<16} {one.kind} {one.namespace}/{one.name}")
        for text in report.errors:
            tell(f"transom: {text}")
    else:
        print_data(report, output)
    if report.stopped:
        raise SystemExit(ExitCode.INTERRUPTED)
    left = {"foreign", "created", "applied", "deleted"} if dry_run else {"foreign"}
    if report.errors or any(one.result in left for one in report.objects):
        raise SystemExit(ExitCode.NOT_DONE)


_WORDS = {
    "unchanged": ("unchanged", "unchanged"),
    "created": ("created", "to create"),
    "applied": ("changed", "to change"),
    "deleted": ("deleted", "to delete"),
    "foreign": ("somebody else's", "somebody else's"),
}
