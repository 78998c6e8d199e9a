"""Everything that is wrong with a set of objects, and the settings that they make."""

from datetime import datetime

import msgspec

from transom.proxy.finding import Finding
from transom.proxy.settings import Effective, effective
from transom.sources.objects import Objects
from transom.windows import instance


class Examined(msgspec.Struct, frozen=True):
    """The settings of each cluster, and all findings: in the order of files and lines."""

    settings: Effective
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make the input invalid."""
        return tuple(finding for finding in self.findings if finding.severity == "error")


def examine(objects: Objects, now: datetime, server: str | None = None) -> Examined:
    """Examine the settings and the instances; `server` is the API server's URL in Transom's own kubeconfig."""
    settings = effective(objects, now, server)
    findings = [*objects.findings, *settings.findings, *instance.examine(objects.windows_instances, objects)]
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
