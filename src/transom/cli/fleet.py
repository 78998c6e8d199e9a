"""The objects of workload clusters, from manifests, for the commands that print or write them."""

import contextlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from transom.cli.messages import tell
from transom.cli.output import ExitCode, Format, fail, print_data, print_lines, report_stop

if TYPE_CHECKING:
    from transom.capi.values.cluster_objects import FleetObject
    from transom.cli.findings import Source
    from transom.kube.client import Client
    from transom.proxy.objects import Cluster
    from transom.proxy.settings import ResolvedSettings
    from transom.sources.objects import Objects


class TemplateReport(StrEnum):
    """In which form the entries of machine templates are printed."""

    ENTRIES = "entries"
    CLUSTER_CLASS = "cluster-class"


def iter_fleet_objects(objects: "Objects", settings: "ResolvedSettings") -> "Iterator[tuple[Cluster, tuple[FleetObject, ...]]]":
    """Iterate over the objects of each cluster that has any. The examination reported invalid cluster IDs."""
    from transom.capi.values.cluster_identity import InvalidIdentity
    from transom.capi.values.cluster_objects import build_fleet_objects, find_namesakes, get_key

    later = find_namesakes(objects.clusters)
    for cluster in objects.clusters:
        egress = settings.clusters[get_key(cluster)]
        if egress is None or get_key(cluster) in later:
            continue
        with contextlib.suppress(InvalidIdentity):
            made = build_fleet_objects(cluster, egress, windows=get_key(cluster) in objects.windows_clusters)
            if made:
                yield cluster, made


def iter_app_references(objects: "Objects", settings: "ResolvedSettings") -> Iterator[dict[str, Any]]:
    """For each App and HelmRelease of the settings, what there is to put into it."""
    from transom.capi.values.cluster_objects import get_key
    from transom.capi.values.values_objects import API_VERSIONS, build_references, find_cluster

    apps = dict.fromkeys(app for egress in settings.clusters.values() if egress is not None for app in egress.apps)
    for app in apps:
        clusters = ((cluster, settings.clusters[get_key(cluster)]) for cluster in objects.clusters)
        having = [item for item, egress in clusters if egress is not None and app in egress.apps]
        if app.kind not in API_VERSIONS:
            # the examination has said so
            continue
        cluster = find_cluster(app, having)
        if cluster is None:
            _warn(f"{app.kind}/{app.namespace}/{app.name} of spec.apps: no one Cluster in its namespace that it belongs to")
        else:
            found_for = settings.clusters[get_key(cluster)]
            yield build_references(app, cluster, own=found_for is not None and found_for.own_values)


def iter_template_additions(
    objects: "Objects", settings: "ResolvedSettings", form: TemplateReport, *, show_secrets: bool
) -> Iterator[dict[str, Any]]:
    """For each cluster, what there is to commit where its templates, or its class, are kept in Git."""
    from transom.capi.bootstrap.commit_entries import build_cluster_class_patch, build_template_objects
    from transom.capi.bootstrap.machine_kinds import MachineFamily, MachineIndex
    from transom.capi.check.machine_checks import iter_first_boot_entries
    from transom.capi.values.cluster_identity import InvalidIdentity
    from transom.capi.values.cluster_objects import get_key

    index = MachineIndex(objects.machine_objects)
    for cluster in objects.clusters:
        egress = settings.clusters[get_key(cluster)]
        if egress is None:
            continue
        try:
            if form is TemplateReport.ENTRIES:
                kinds = index.find_kinds(cluster)
                if kinds.is_guess:
                    name = cluster.place.object
                    _warn(
                        f"{name}: no MachineDeployment or MachinePool of it is here: these are entries for any of its workers"
                    )
                yield from build_template_objects(cluster, egress, show_secrets=show_secrets, kinds=kinds)
                yield from iter_first_boot_entries(cluster, egress, index)
            elif MachineFamily.KUBEADM not in index.find_kinds(cluster).families:
                continue
            elif (patch := build_cluster_class_patch(cluster, egress)) is not None:
                name = f"<class of {cluster.metadata.name}>"
                kind = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": name}}
                yield {**kind, "spec": {"patches": [patch]}}
        except InvalidIdentity:
            # the examination has said so
            continue


def iter_unsupported_machines(objects: "Objects", settings: "ResolvedSettings", form: TemplateReport) -> Iterator[str]:
    """Yield an error for each cluster with machines that the printed entries do not reach."""
    from transom.capi.bootstrap.machine_kinds import MachineFamily, MachineIndex, needs_entries
    from transom.capi.check.machine_checks import describe_unsupported
    from transom.capi.values.cluster_objects import get_key

    index = MachineIndex(objects.machine_objects)
    for cluster in objects.clusters:
        egress = settings.clusters[get_key(cluster)]
        if egress is None or not needs_entries(egress):
            continue
        kinds = index.find_kinds(cluster)
        if kinds.unsupported:
            yield f"{cluster.place.object}: {describe_unsupported(kinds.unsupported)}"
        if form is TemplateReport.CLUSTER_CLASS and set(kinds.families) - {MachineFamily.KUBEADM}:
            yield f"{cluster.place.object}: the patch of a ClusterClass is for kubeadm alone; use --machine-templates entries"


def _warn(message: str) -> None:
    tell(f"transom: warning: {message}")


def write_objects(source: "Source", output: Format, *, dry_run: bool) -> None:
    """`apply --objects` and `diff --objects`: write, or compare, and report; exit code 1 where something is left to do."""
    from transom.cli.cluster import run_with_client
    from transom.cli.findings import print_findings
    from transom.common.counting import format_count
    from transom.controllers.clusters.bootstrap import ObjectsReport, with_server_clusters, write
    from transom.sources.directory import load
    from transom.sources.examination import examine

    paths = source.filename
    if not paths or not source.context:
        fail("--objects needs -f PATH, and --context NAME, so that it is said which cluster is written to")

    async def write_cluster_objects(client: "Client") -> ObjectsReport:
        objects = await with_server_clusters(client, load(paths, source.own))
        examined = examine(objects, datetime.now(UTC), client.connection.server)
        print_findings(examined.findings, sys.stderr)
        if examined.errors:
            fail(f"the manifests have {format_count(len(examined.errors), 'error')}", ExitCode.INVALID)
        return await write(client, objects, examined.settings, dry_run=dry_run)

    with report_stop("before anything was written"):
        report = run_with_client(source, write_cluster_objects, reports=True)
    if not report.objects and not report.errors:
        tell("transom: no Cluster of the manifests gets objects by these settings; Clusters of the server alone do not count")
    if output is Format.TEXT:
        for item in report.objects:
            print_lines(f"{_WORDS[item.result][dry_run]:<16} {item.kind} {item.namespace}/{item.name}")
        for text in report.errors:
            tell(f"transom: {text}")
    else:
        print_data(report, output)
    if report.stopped:
        raise SystemExit(ExitCode.INTERRUPTED)
    left = {"foreign", "created", "applied", "deleted"} if dry_run else {"foreign"}
    if report.errors or any(obj.result in left for obj in report.objects):
        raise SystemExit(ExitCode.NOT_DONE)


_WORDS = {
    "unchanged": ("unchanged", "unchanged"),
    "created": ("created", "to create"),
    "applied": ("changed", "to change"),
    "deleted": ("deleted", "to delete"),
    "foreign": ("not Transom's", "not Transom's"),
}
