"""Everything that is wrong with a set of objects, and the settings that they make."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from transom.proxy.finding import Finding
from transom.proxy.layers import BASE
from transom.proxy.settings import ResolvedSettings, resolve_settings
from transom.sources.objects import Objects
from transom.windows.nodes import windows_instance
from transom.windows.nodes.windows_instance import WindowsInstance


class Examined(msgspec.Struct, frozen=True):
    """The settings of each cluster, and all findings: in the order of files and lines."""

    settings: ResolvedSettings
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make the input invalid."""
        return tuple(finding for finding in self.findings if finding.severity == "error")


BASE_MISSING: Final = f"EgressProxy/{BASE} does not exist here"


def format_hosts(hosts: Sequence[WindowsInstance]) -> str:
    """`win-1`, or `win-1 and 3 more hosts`."""
    more = len(hosts) - 1
    return hosts[0].name + (f" and {more:,} more host{'s' if more > 1 else ''}" if more else "")


def _list_hosts_without_base(objects: Objects) -> list[WindowsInstance]:
    """Return the hosts that would only have the settings of the base."""
    return [host for host in objects.windows_instances if host.cluster is None and host.spec.lifecycle == "Egress"]


def examine_objects(objects: Objects, now: datetime, server: str | None = None) -> Examined:
    """Examine the settings and the instances; `server` is the API server's URL in Transom's own kubeconfig."""
    settings = resolve_settings(objects, now, server)
    findings = [
        *settings.findings,
        *_check_identities(objects),
        *check_machines(objects, settings),
        *windows_instance.examine_instances(objects.windows_instances, objects),
    ]
    if settings.own is not None and settings.own.missing and (keeping := _list_hosts_without_base(objects)):
        message = (
            f"{BASE_MISSING}, so diff and apply refuse these files: it is not known what {format_hosts(keeping)} should have"
        )
        findings.append(keeping[0].place.build_warning(("metadata", "name"), message))
    for host in objects.windows_instances:
        egress = settings.for_instance(host)
        if egress and not egress.api_server_known and host.spec.lifecycle == "Node" and "kubelet" in egress.windows.services:
            message = "the API server's host is not known, so NO_PROXY cannot be given to the kubelet: set "
            message += (
                "spec.networks.internalAPIHost of EgressProxy/cluster" if host.cluster is None else "the Cluster's endpoint"
            )
            findings.append(host.place.build_error(("spec", "lifecycle"), message))
    if withheld := [host for host in objects.windows_instances if settings.find_withheld(host) is not None]:
        message = f"its settings have credentials, and spec.clusterSelector is not set: apply refuses {format_hosts(withheld)}"
        findings.append(withheld[0].place.build_warning(("spec", "clusterRef"), message))
    # of a value that could not be read it is enough to say that
    unread = {(finding.object, finding.field) for finding in objects.findings if finding.severity == "error"}
    findings = [*objects.findings, *(finding for finding in findings if (finding.object, finding.field) not in unread)]
    order = {name: index for index, name in enumerate(dict.fromkeys(finding.file for finding in findings))}
    return Examined(settings, tuple(sorted(dict.fromkeys(findings), key=lambda f: (order[f.file], f.line, f.column))))


def check_machines(objects: Objects, settings: ResolvedSettings) -> tuple[Finding, ...]:
    """Return what is wrong with the machines of workload clusters: none of it makes the settings invalid."""
    if not objects.machine_objects:
        return ()
    # not for those who have no Clusters: it renders for machines
    from transom.capi.check.machine_checks import examine_machines

    return tuple(examine_machines(objects, settings))


def _check_identities(objects: Objects) -> Iterator[Finding]:
    """Clusters that get nothing because of their id: it is not a valid name, or another one has it."""
    if not objects.clusters:
        return
    # not for those who have no Clusters: it renders for machines
    from transom.capi.values.cluster_identity import ID_LABEL, InvalidIdentity, get_cluster_id
    from transom.capi.values.cluster_objects import find_identity_conflicts, get_namespaced_name

    later = find_identity_conflicts(objects.clusters)
    for cluster in objects.clusters:
        path = ("metadata", "labels", ID_LABEL) if ID_LABEL in cluster.metadata.labels else ("metadata", "name")
        if get_namespaced_name(cluster) in later:
            yield cluster.place.build_warning(path, later[get_namespaced_name(cluster)].message)
        try:
            get_cluster_id(cluster)
        except InvalidIdentity as error:
            yield cluster.place.build_warning(path, str(error))
