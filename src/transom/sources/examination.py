"""Everything that is wrong with a set of objects, and the settings that they make."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from transom.proxy.finding import Finding
from transom.proxy.layers import BASE
from transom.proxy.settings import Effective, effective
from transom.sources.objects import Objects
from transom.windows import nodes
from transom.windows.nodes import WindowsInstance


class Examined(msgspec.Struct, frozen=True):
    """The settings of each cluster, and all findings: in the order of files and lines."""

    settings: Effective
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make the input invalid."""
        return tuple(finding for finding in self.findings if finding.severity == "error")


BASE_MISSING: Final = f"there is no EgressProxy/{BASE} here"


def counted_hosts(hosts: Sequence[WindowsInstance]) -> str:
    """`win-1`, or `win-1 and 3 more hosts`."""
    more = len(hosts) - 1
    return hosts[0].name + (f" and {more:,} more host{'s' if more > 1 else ''}" if more else "")


def _without_base(objects: Objects) -> list[WindowsInstance]:
    """The hosts whose only settings would be those of the base."""
    return [host for host in objects.windows_instances if host.cluster is None and host.spec.lifecycle == "Egress"]


def examine(objects: Objects, now: datetime, server: str | None = None) -> Examined:
    """Examine the settings and the instances; `server` is the API server's URL in Transom's own kubeconfig."""
    settings = effective(objects, now, server)
    findings = [
        *objects.findings,
        *settings.findings,
        *_identities(objects),
        *nodes.examine(objects.windows_instances, objects),
    ]
    if settings.own is not None and settings.own.missing and (keeping := _without_base(objects)):
        message = f"{BASE_MISSING}, so nothing is changed on {counted_hosts(keeping)}"
        findings.append(keeping[0].place.warning(("metadata", "name"), message))
    for host in objects.windows_instances:
        egress = settings.of(host)
        if egress and not egress.api_server_known and host.spec.lifecycle == "Node" and "kubelet" in egress.windows.services:
            message = "the API server's host is not known, so NO_PROXY cannot be given to the kubelet: set "
            message += (
                "spec.networks.internalAPIHost of EgressProxy/cluster" if host.cluster is None else "the Cluster's endpoint"
            )
            findings.append(host.place.error(("spec", "lifecycle"), message))
    order = {name: index for index, name in enumerate(dict.fromkeys(finding.file for finding in findings))}
    return Examined(settings, tuple(sorted(dict.fromkeys(findings), key=lambda f: (order[f.file], f.line, f.column))))


def _identities(objects: Objects) -> Iterator[Finding]:
    """Clusters that get nothing for their id: it is no name, or another one has it."""
    if not objects.clusters:
        return
    # not for those who have no Clusters: it renders for machines
    from transom.capi.identity import ID_LABEL, InvalidIdentity, cluster_id
    from transom.capi.objects import key_of, namesakes

    later = namesakes(objects.clusters)
    for cluster in objects.clusters:
        path = ("metadata", "labels", ID_LABEL) if ID_LABEL in cluster.metadata.labels else ("metadata", "name")
        if key_of(cluster) in later:
            yield cluster.place.warning(path, later[key_of(cluster)].text)
        try:
            cluster_id(cluster)
        except InvalidIdentity as error:
            yield cluster.place.warning(path, str(error))
