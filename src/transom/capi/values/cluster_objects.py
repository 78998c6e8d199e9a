"""The objects that Transom keeps in a Cluster's namespace for the cluster's apps and machines."""

import base64
import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from transom.capi.bootstrap import windows_proxy
from transom.capi.values.cluster_identity import (
    InvalidIdentity,
    build_ca_name,
    build_labels,
    build_owner_reference,
    build_systemd_name,
    build_systemd_names,
    build_values_name,
    get_cluster_id,
    list_values_names,
)
from transom.capi.values.values_objects import KEY as VALUES
from transom.capi.values.values_objects import render_values_config_map, render_values_secret
from transom.linux.drop_ins import render_drop_in, render_shell_lines
from transom.proxy.objects import Cluster
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import format_pem
from transom.proxy.validation import BUNDLE_KEY

CONTAINERD_PROXY: Final = "containerdProxy"
ENV: Final = "env"
"""For static pods, whose environment all can read that read Pods: empty unless they are a consumer."""
SHELL: Final = "shell"
"""The same lines, for commands of the machines' own."""


class FleetObject(msgspec.Struct, frozen=True):
    """A ConfigMap (`data` are texts) or a Secret (`data` are Secrets)."""

    kind: Literal["ConfigMap", "Secret"]
    namespace: str
    name: str
    labels: Mapping[str, str]
    owner: Mapping[str, Any] | None
    data: Mapping[str, str | Secret]

    def to_manifest(self, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the object for an API server, with a Secret's values in base64."""
        metadata: dict[str, Any] = {"name": self.name, "namespace": self.namespace, "labels": dict(self.labels)}
        if annotations:
            metadata["annotations"] = dict(annotations)
        if self.owner:
            metadata["ownerReferences"] = [dict(self.owner)]
        data = {key: _encode_value(value) for key, value in self.data.items()}
        return {"apiVersion": "v1", "kind": self.kind, "metadata": metadata, "data": data}


def _encode_value(value: str | Secret) -> str:
    return base64.b64encode(value.reveal().encode()).decode("ascii") if isinstance(value, Secret) else value


def build_fleet_objects(
    cluster: Cluster, egress: Egress, *, windows: bool = False, referenced_names: Collection[str] = ()
) -> tuple[FleetObject, ...]:
    """Build the objects of a cluster; none if it has no settings and no object refers to one.

    `windows`: the cluster has Windows templates. `referenced_names` are the objects that something refers to:
    of these, what the settings do not request any more stays, without a proxy. Secrets come first,
    the ConfigMap of the values last: it lists the Secrets that exist. Raises InvalidIdentity.
    """
    identity = get_cluster_id(cluster)
    made = tuple(_iter_object_contents(cluster, egress, identity, windows=windows, named=referenced_names))
    namespace, owner = cluster.metadata.namespace or "", build_owner_reference(cluster)
    return tuple(FleetObject(kind, namespace, name, build_labels(identity), owner, data) for kind, name, data in made)


def build_systemd_data(egress: Egress) -> dict[str, Secret]:
    """Return the data of the Secret for Linux machines: every key exists, and is empty if the settings are not for Linux."""
    nodes, static = (egress if item in egress.consumers else Egress() for item in ("Nodes", "StaticPods"))
    return {CONTAINERD_PROXY: render_drop_in(nodes), ENV: render_shell_lines(static), SHELL: render_shell_lines(nodes)}


_Content = tuple[Literal["ConfigMap", "Secret"], str, Mapping[str, str | Secret]]


def _iter_object_contents(
    cluster: Cluster, egress: Egress, identity: str, *, windows: bool, named: Collection[str]
) -> Iterator[_Content]:
    nodes, apps, static = (item in egress.consumers and egress.configured for item in ("Nodes", "Apps", "StaticPods"))
    nothing = Egress(windows=egress.windows)
    proxied = bool(egress.http_proxy or egress.https_proxy)
    any_secret = False

    systemd = build_systemd_name(identity, own_name=egress.own_drop_in)
    for name in build_systemd_names(identity):
        # the one of the other name stays while machines boot with it
        if (name == systemd and (nodes or static) and proxied) or name in named:
            any_secret = True
            yield "Secret", name, build_systemd_data(egress)
    windows_secret = windows_proxy.build_secret_name(identity)
    if (nodes and windows) or windows_secret in named:
        any_secret = True
        yield (
            "Secret",
            windows_secret,
            {windows_proxy.KEY: windows_proxy.encode_proxy_reg(egress if nodes else nothing, identity)},
        )
    values = build_values_name(identity, own_name=egress.own_values)
    # another pair stays while it is named, after the names were changed
    pairs = [item for item in list_values_names(identity) if item != values and item in named]
    if (apps and proxied) or values in named:
        pairs.append(values)
    for name in pairs:
        any_secret = True
        yield "Secret", name, {VALUES: render_values_secret(egress if apps else nothing)}
    if (nodes or apps) and egress.trust:
        yield "ConfigMap", build_ca_name(identity), {BUNDLE_KEY: format_pem(egress.trust)}
    if any_secret:
        for name in dict.fromkeys((*pairs, values)):
            yield "ConfigMap", name, {VALUES: render_values_config_map(cluster, egress if apps else nothing)}


class IdentityConflict(msgspec.Struct, frozen=True):
    """A Cluster whose id another one of the same namespace has; both as (namespace, name)."""

    holder: tuple[str, str]
    later: tuple[str, str]
    identity: str
    age_known: bool

    @property
    def message(self) -> str:
        """What comes of it."""
        who = f"the older, {self.holder[1]}, has it" if self.age_known else f"the older will have it, here {self.holder[1]}"
        clusters = f"Cluster {'/'.join(self.holder)} and Cluster {'/'.join(self.later)}"
        return f"{clusters} have one id, {self.identity}: {who}, and nothing is made for {self.later[1]}"


def find_identity_conflicts(clusters: Collection[Cluster]) -> dict[tuple[str, str], IdentityConflict]:
    """Return the clusters that get no objects because an older one has their ID.

    Without ages, the one named like the ID wins.
    """
    claims: dict[tuple[str, str], list[Cluster]] = {}
    for cluster in clusters:
        # one whose id is none gets no objects, so no name of one
        with contextlib.suppress(InvalidIdentity):
            claims.setdefault((cluster.metadata.namespace or "", get_cluster_id(cluster)), []).append(cluster)
    duplicates = {}
    for (_, identity), several in claims.items():
        holder, *others = sorted(several, key=lambda item: _get_sort_key(item, identity))
        for other in others:
            known = other.metadata.creation_timestamp is not None and holder.metadata.creation_timestamp is not None
            duplicates[get_namespaced_name(other)] = IdentityConflict(
                get_namespaced_name(holder), get_namespaced_name(other), identity, known
            )
    return duplicates


def get_namespaced_name(cluster: Cluster) -> tuple[str, str]:
    """Namespace and name."""
    return cluster.metadata.namespace or "", cluster.metadata.name


def _get_sort_key(cluster: Cluster, identity: str) -> tuple[str, bool, str]:
    meta = cluster.metadata
    # one from a file has no time: it is not there yet
    return meta.creation_timestamp or "~", meta.name != identity, meta.name
