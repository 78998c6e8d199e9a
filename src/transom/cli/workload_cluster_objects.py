"""The objects of workload clusters, from manifests, for the commands that print or write them."""

import contextlib
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from transom.cli.messages import print_to_stderr
from transom.cli.output import ExitCode, Format, exit_when_stopped, fail, print_data, print_lines

if TYPE_CHECKING:
    from transom.capi.bootstrap.machine_index import MachineIndex, MachineTemplate
    from transom.capi.values.cluster_objects import FleetObject
    from transom.cli.findings import Source
    from transom.kube.client import Client
    from transom.proxy.objects import Cluster, MachineObject
    from transom.proxy.settings import ResolvedSettings
    from transom.sources.objects import Objects


class TemplateReport(StrEnum):
    """In which form the entries of machine templates are printed."""

    ENTRIES = "entries"
    CLUSTER_CLASS = "cluster-class"


def iter_fleet_objects(objects: "Objects", settings: "ResolvedSettings") -> "Iterator[tuple[Cluster, tuple[FleetObject, ...]]]":
    """Iterate over the objects of each cluster that has any. The examination reported invalid cluster IDs."""
    from transom.capi.values.cluster_identity import InvalidIdentity
    from transom.capi.values.cluster_objects import build_fleet_objects, find_identity_conflicts, get_namespaced_name

    later = find_identity_conflicts(objects.clusters)
    for cluster in objects.clusters:
        egress = settings.clusters[get_namespaced_name(cluster)]
        if egress is None or get_namespaced_name(cluster) in later:
            continue
        with contextlib.suppress(InvalidIdentity):
            made = build_fleet_objects(cluster, egress, windows=get_namespaced_name(cluster) in objects.windows_clusters)
            if made:
                yield cluster, made


def iter_app_references(objects: "Objects", settings: "ResolvedSettings") -> Iterator[dict[str, Any]]:
    """For each App and HelmRelease of the settings, what there is to put into it."""
    from transom.capi.values.cluster_objects import get_namespaced_name
    from transom.capi.values.values_objects import API_VERSIONS, build_references, find_cluster

    apps = dict.fromkeys(app for egress in settings.clusters.values() if egress is not None for app in egress.apps)
    for app in apps:
        clusters = ((cluster, settings.clusters[get_namespaced_name(cluster)]) for cluster in objects.clusters)
        having = [item for item, egress in clusters if egress is not None and app in egress.apps]
        if app.kind not in API_VERSIONS:
            # the examination has said so
            continue
        cluster = find_cluster(app, having)
        if cluster is None:
            _warn(f"{app.kind}/{app.namespace}/{app.name} of spec.apps: no one Cluster in its namespace that it belongs to")
        else:
            found_for = settings.clusters[get_namespaced_name(cluster)]
            yield build_references(app, cluster, own_name=found_for is not None and found_for.own_values)


def iter_template_additions(
    objects: "Objects", settings: "ResolvedSettings", form: TemplateReport, *, show_secrets: bool
) -> Iterator[dict[str, Any]]:
    """For each cluster, what there is to commit where its templates, or its class, are kept in Git."""
    from transom.capi.bootstrap.machine_index import MachineIndex
    from transom.capi.bootstrap.machine_kinds import needs_entries
    from transom.capi.bootstrap.template_patches import build_cluster_class_patch, build_template_objects
    from transom.capi.check.machine_checks import iter_first_boot_entries
    from transom.capi.values.cluster_identity import InvalidIdentity
    from transom.capi.values.cluster_objects import get_namespaced_name

    index = MachineIndex(objects.machine_objects)
    if not objects.clusters and objects.machine_objects:
        _warn("no Cluster is in the manifests: entries name the Secrets of a cluster, so add one")
    patches: dict[str, tuple[str, dict[str, Any]]] = {}
    first_boot: dict[str, dict[str, Any]] = {}
    for cluster in objects.clusters:
        egress = settings.clusters[get_namespaced_name(cluster)]
        if egress is None:
            continue
        name = cluster.place.object
        try:
            if form is TemplateReport.ENTRIES:
                for item in iter_first_boot_entries(cluster, egress, index):
                    first_boot.setdefault(f"{item['kind']}/{item['metadata']}", item)
                if index.has_cluster_class(cluster):
                    if needs_entries(egress) and _can_patch_class(cluster, index):
                        _warn(f"{name}: a ClusterClass makes its templates: --machine-templates cluster-class prints its patch")
                    continue
                templates = index.list_templates(cluster)
                _warn_about_guesses(name, templates)
                yield from build_template_objects(cluster, egress, templates, show_secrets=show_secrets)
                continue
            if not index.has_cluster_class(cluster) and (cluster.control_plane or index.list_workers(cluster)):
                if needs_entries(egress) and index.list_templates(cluster):
                    _warn(f"{name}: has no ClusterClass: --machine-templates entries prints what its templates get")
                continue
            if not _can_patch_class(cluster, index):
                continue
            own_class = index.find_cluster_class(cluster)
            patch = build_cluster_class_patch(cluster, egress, own_class, index)
        except InvalidIdentity:
            # the examination has said so
            continue
        if patch is None:
            continue
        if own_class is None:
            _warn(f"{name}: its ClusterClass is not known here: put in the versions and the names of its classes")
        label = own_class.place.object if own_class is not None else f"<class of {cluster.metadata.name}>"
        if label in patches:
            if patches[label][1] != patch:
                other = patches[label][0]
                _warn(f"{name}: needs another patch of {label} than {other}, such as for other CAs: use a class for each")
            continue
        patches[label] = name, patch
        yield _build_class_object(own_class, label, patch)
    yield from first_boot.values()


def _can_patch_class(cluster: "Cluster", index: "MachineIndex") -> bool:
    """Return True if the class of a cluster has templates that take entries, or can be one of kubeadm."""
    from transom.capi.bootstrap.machine_kinds import MachineFamily

    own_class = index.find_cluster_class(cluster)
    if own_class is not None:
        return bool(index.list_class_templates(own_class))
    kinds = index.find_machine_kinds(cluster)
    return not kinds.missing_class and set(kinds.families) == {MachineFamily.KUBEADM}


def _build_class_object(own_class: "MachineObject | None", label: str, patch: dict[str, Any]) -> dict[str, Any]:
    version = f"{own_class.group}/{own_class.version}" if own_class is not None else "cluster.x-k8s.io/v1beta2"
    metadata = {"name": own_class.name, "namespace": own_class.namespace} if own_class is not None else {"name": label}
    return {"apiVersion": version, "kind": "ClusterClass", "metadata": metadata, "spec": {"patches": [patch]}}


def _warn_about_guesses(cluster: str, templates: "list[MachineTemplate]") -> None:
    """Name what is printed without its object: whether it exists, or whether its machines run Windows, is not known."""
    if any(item.is_guess for item in templates):
        _warn(f"{cluster}: no MachineDeployment or MachinePool of it is here: these are entries for any of its workers")
    unknown = [f"{item.kind}/{item.namespace}/{item.name}" for item in templates if item.spec is None and not item.is_guess]
    if unknown:
        _warn(f"{cluster}: not in the manifests, printed as for Linux machines: {', '.join(unknown)}")


def iter_unsupported_machines(objects: "Objects", settings: "ResolvedSettings", form: TemplateReport) -> Iterator[str]:
    """Yield an error for each cluster with machines that the printed entries do not reach."""
    from transom.capi.bootstrap.machine_index import MachineIndex
    from transom.capi.bootstrap.machine_kinds import MachineFamily, needs_entries
    from transom.capi.check.machine_checks import TALOS_IN_CLASS, describe_missing_class, describe_unsupported
    from transom.capi.values.cluster_objects import get_namespaced_name

    index = MachineIndex(objects.machine_objects)
    for cluster in objects.clusters:
        egress = settings.clusters[get_namespaced_name(cluster)]
        if egress is None or not needs_entries(egress):
            continue
        kinds = index.find_machine_kinds(cluster)
        if kinds.unsupported:
            yield f"{cluster.place.object}: {describe_unsupported(kinds.unsupported)}"
        if kinds.missing_class:
            yield f"{cluster.place.object}: {describe_missing_class(kinds.missing_class)}"
        if MachineFamily.TALOS in kinds.families and index.has_cluster_class(cluster):
            yield f"{cluster.place.object}: {TALOS_IN_CLASS}"


def _warn(message: str) -> None:
    print_to_stderr(f"transom: warning: {message}")


def write_objects(source: "Source", output: Format, *, dry_run: bool) -> None:
    """`apply --objects` and `diff --objects`: write, or compare, and report; exit code 1 where something is left to do."""
    from transom.cli.cluster import run_with_client
    from transom.cli.findings import print_findings
    from transom.common.counting import format_count
    from transom.controllers.clusters.bootstrap import ObjectsReport, with_server_clusters, write_cluster_objects
    from transom.sources.directory import load_objects
    from transom.sources.examination import examine_objects

    paths = source.filename
    if not paths or not source.context:
        fail("--objects needs -f PATH, and --context NAME, so that it is said which cluster is written to")

    async def load_and_write(client: "Client") -> ObjectsReport:
        objects = await with_server_clusters(client, load_objects(paths, source.effective_namespace))
        examined = examine_objects(objects, datetime.now(UTC), client.connection.server)
        print_findings(examined.findings, sys.stderr)
        if examined.errors:
            fail(f"the manifests have {format_count(len(examined.errors), 'error')}", ExitCode.INVALID)
        return await write_cluster_objects(client, objects, examined.settings, dry_run=dry_run)

    with exit_when_stopped("before anything was written"):
        report = run_with_client(source, load_and_write, reports=True)
    if not report.objects and not report.errors:
        print_to_stderr(
            "transom: no Cluster of the manifests gets objects by these settings; Clusters of the server alone do not count"
        )
    if output is Format.TEXT:
        for item in report.objects:
            print_lines(f"{_WORDS[item.result][dry_run]:<16} {item.kind} {item.namespace}/{item.name}")
        for text in report.errors:
            print_to_stderr(f"transom: {text}")
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
