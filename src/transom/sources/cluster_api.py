"""Cluster API's objects (v1beta1 and v1beta2: the same places in both): Clusters, and whose templates are for Windows."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from transom.proxy.finding import Finding, Place
from transom.proxy.no_proxy import reached_at
from transom.proxy.objects import Cluster, Meta
from transom.sources.core_objects import at, number, text, texts
from transom.sources.decoding import Decoder

CLUSTER_NAME: Final = "cluster.x-k8s.io/cluster-name"


class Template(msgspec.Struct, frozen=True):
    """A KubeadmConfigTemplate: the cluster that its label names, and whether its machines run Windows."""

    metadata: Meta
    place: Place
    cluster: str | None
    windows: bool


class Deployment(msgspec.Struct, frozen=True):
    """A MachineDeployment: its cluster, and the template that its machines are configured by."""

    metadata: Meta
    place: Place
    cluster: str | None
    template: str | None


class Machine(msgspec.Struct, frozen=True):
    """A Machine: its cluster, and the IP addresses by which others of the cluster reach it."""

    metadata: Meta
    place: Place
    cluster: str | None
    addresses: tuple[str, ...]


def cluster(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> Cluster:
    """The networks and the endpoint, as far as the object knows them."""
    return Cluster(
        meta,
        place,
        str(value["apiVersion"]),
        texts(value, ("spec", "clusterNetwork", "services", "cidrBlocks"), decoder),
        texts(value, ("spec", "clusterNetwork", "pods", "cidrBlocks"), decoder),
        text(value, ("spec", "clusterNetwork", "serviceDomain"), decoder),
        text(value, ("spec", "controlPlaneEndpoint", "host"), decoder),
        number(value, ("spec", "controlPlaneEndpoint", "port"), decoder),
        text(value, ("spec", "infrastructureRef", "kind"), decoder),
        text(value, ("spec", "infrastructureRef", "name"), decoder),
        text(value, ("spec", "controlPlaneRef", "kind"), decoder),
        text(value, ("spec", "controlPlaneRef", "name"), decoder),
    )


def template(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> Template:
    """A KubeadmConfigTemplate; of what it configures nothing is examined: that is Cluster API's."""
    spec = at(value, ("spec", "template", "spec"))
    # not for those who read no templates: it knows of hosts and payloads
    from transom.capi.injection import on_windows

    return Template(meta, place, meta.labels.get(CLUSTER_NAME), isinstance(spec, dict) and on_windows(spec))


def deployment(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> Deployment:
    """A MachineDeployment, as far as it connects a cluster with a template."""
    cluster_name = at(value, ("spec", "clusterName"))
    name = at(value, ("spec", "template", "spec", "bootstrap", "configRef", "name"))
    return Deployment(
        meta, place, cluster_name if isinstance(cluster_name, str) else None, name if isinstance(name, str) else None
    )


def machine(value: dict[str, Any], meta: Meta, place: Place, decoder: Decoder, findings: list[Finding]) -> Machine:
    """A Machine, of which Cluster API alone writes the status: what does not fit in it is left out."""
    name, given = at(value, ("spec", "clusterName")), at(value, ("status", "addresses"))
    return Machine(meta, place, name if isinstance(name, str) else None, reached_at(_addresses(given)))


def _addresses(given: Any) -> Iterator[tuple[str, str]]:
    for one in given if isinstance(given, list) else ():
        kind, address = (one.get("type"), one.get("address")) if isinstance(one, dict) else (None, None)
        if isinstance(kind, str) and isinstance(address, str):
            yield kind, address


def addresses_of(machines: Iterable[Machine]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The addresses by namespace and name of the Cluster."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in machines:
        if one.cluster and one.addresses:
            found.setdefault((one.metadata.namespace or "", one.cluster), []).extend(one.addresses)
    return {cluster: tuple(dict.fromkeys(addresses)) for cluster, addresses in found.items()}


def with_windows(templates: Iterable[Template], deployments: Iterable[Deployment]) -> Iterator[tuple[str, str]]:
    """The clusters that have a template for Windows machines, as (namespace, name)."""
    windows = {(one.metadata.namespace or "", one.metadata.name): one for one in templates if one.windows}
    for (namespace, _), one in windows.items():
        if one.cluster:
            yield namespace, one.cluster
    for using in deployments:
        namespace = using.metadata.namespace or ""
        if using.cluster and (namespace, using.template or "") in windows:
            yield namespace, using.cluster
