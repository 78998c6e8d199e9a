"""The objects that Transom keeps in a Cluster's namespace for the cluster's apps and machines."""

import base64
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from transom.capi import windows_proxy
from transom.capi.identity import InvalidIdentity, ca_name, cluster_id, labels, owner_reference, systemd_name, values_name
from transom.capi.values import KEY as VALUES
from transom.capi.values import config_map_text, secret_text
from transom.linux.environment import drop_in, shell_lines
from transom.proxy.objects import Cluster
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import pem
from transom.proxy.validation import BUNDLE_KEY

CONTAINERD_PROXY: Final = "containerdProxy"
ENV: Final = "env"


class FleetObject(msgspec.Struct, frozen=True):
    """A ConfigMap (`data` are texts) or a Secret (`data` are Secrets)."""

    kind: Literal["ConfigMap", "Secret"]
    namespace: str
    name: str
    labels: Mapping[str, str]
    owner: Mapping[str, Any] | None
    data: Mapping[str, str | Secret]

    def manifest(self, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The object as an API server takes it; a Secret's values in base64."""
        metadata: dict[str, Any] = {"name": self.name, "namespace": self.namespace, "labels": dict(self.labels)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        if self.owner:
            metadata["ownerReferences"] = [dict(self.owner)]
        data = {key: _plain(value) for key, value in self.data.items()}
        return {"apiVersion": "v1", "kind": self.kind, "metadata": metadata, "data": data}


def _plain(value: str | Secret) -> str:
    return base64.b64encode(value.reveal().encode()).decode("ascii") if isinstance(value, Secret) else value


def wanted(cluster: Cluster, egress: Egress, *, windows: bool = False, named: Collection[str] = ()) -> tuple[FleetObject, ...]:
    """The objects of a cluster; none where it has no settings and nobody waits for one.

    `windows`: the cluster has Windows templates. `named` are the objects that something refers to: of these, what the settings
    no longer ask for stays, without a proxy. Secrets come first, the ConfigMap of the values last: it says what Secrets there
    are. Raises InvalidIdentity.
    """
    identity = cluster_id(cluster)
    made = tuple(_contents(cluster, egress, identity, windows=windows, named=named))
    namespace, owner = cluster.metadata.namespace or "", owner_reference(cluster)
    return tuple(FleetObject(kind, namespace, name, labels(identity), owner, data) for kind, name, data in made)


_Content = tuple[Literal["ConfigMap", "Secret"], str, Mapping[str, str | Secret]]


def _contents(cluster: Cluster, egress: Egress, identity: str, *, windows: bool, named: Collection[str]) -> Iterator[_Content]:
    nodes, apps = ("Nodes" in egress.consumers and egress.configured), ("Apps" in egress.consumers and egress.configured)
    nothing = Egress(windows=egress.windows)
    proxied = bool(egress.http_proxy or egress.https_proxy)
    any_secret = False

    systemd = systemd_name(identity)
    if (nodes and proxied) or systemd in named:
        held = egress if nodes else nothing
        any_secret = True
        yield "Secret", systemd, {CONTAINERD_PROXY: drop_in(held), ENV: shell_lines(held)}
    windows_secret = windows_proxy.secret_name(identity)
    if (nodes and windows) or windows_secret in named:
        any_secret = True
        yield "Secret", windows_secret, {windows_proxy.KEY: windows_proxy.secret_value(egress if nodes else nothing, identity)}
    values = values_name(identity)
    if (apps and proxied) or values in named:
        any_secret = True
        yield "Secret", values, {VALUES: secret_text(egress if apps else nothing)}
    if (nodes or apps) and egress.trust:
        yield "ConfigMap", ca_name(identity), {BUNDLE_KEY: pem(egress.trust)}
    if any_secret:
        yield "ConfigMap", values, {VALUES: config_map_text(cluster, egress if apps else nothing)}


def namesakes(clusters: Collection[Cluster]) -> dict[tuple[str, str], tuple[str, str]]:
    """Clusters whose id an older one of the same namespace has, each with the older one; both as (namespace, name)."""
    first: dict[tuple[str, str], Cluster] = {}
    later: dict[tuple[str, str], tuple[str, str]] = {}
    for cluster in sorted(clusters, key=_age):
        try:
            claim = (cluster.metadata.namespace or "", cluster_id(cluster))
        except InvalidIdentity:
            # it gets no objects, so no name of one
            continue
        holder = first.setdefault(claim, cluster)
        if holder is not cluster:
            later[key_of(cluster)] = key_of(holder)
    return later


def key_of(cluster: Cluster) -> tuple[str, str]:
    """Namespace and name."""
    return cluster.metadata.namespace or "", cluster.metadata.name


def _age(cluster: Cluster) -> tuple[str, str, str]:
    meta = cluster.metadata
    # one from a file has no time: it is not there yet
    return meta.creation_timestamp or "~", meta.namespace or "", meta.name
