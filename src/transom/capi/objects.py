"""The objects that Transom keeps in a Cluster's namespace for the cluster's apps and machines."""

import base64
import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from transom.capi import windows_proxy
from transom.capi.identity import (
    InvalidIdentity,
    ca_name,
    cluster_id,
    labels,
    owner_reference,
    systemd_name,
    values_name,
    values_names,
)
from transom.capi.values import KEY as VALUES
from transom.capi.values import config_map_text, secret_text
from transom.linux import drop_in, shell_lines
from transom.proxy.objects import Cluster
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import pem
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


def systemd_data(egress: Egress) -> dict[str, Secret]:
    """What the Secret of Linux machines holds: each key is always there, and empty for whom the settings are not."""
    nodes, static = (egress if one in egress.consumers else Egress() for one in ("Nodes", "StaticPods"))
    return {CONTAINERD_PROXY: drop_in(nodes), ENV: shell_lines(static), SHELL: shell_lines(nodes)}


_Content = tuple[Literal["ConfigMap", "Secret"], str, Mapping[str, str | Secret]]


def _contents(cluster: Cluster, egress: Egress, identity: str, *, windows: bool, named: Collection[str]) -> Iterator[_Content]:
    nodes, apps, static = (one in egress.consumers and egress.configured for one in ("Nodes", "Apps", "StaticPods"))
    nothing = Egress(windows=egress.windows)
    proxied = bool(egress.http_proxy or egress.https_proxy)
    any_secret = False

    systemd = systemd_name(identity)
    if ((nodes or static) and proxied) or systemd in named:
        any_secret = True
        yield "Secret", systemd, systemd_data(egress)
    windows_secret = windows_proxy.secret_name(identity)
    if (nodes and windows) or windows_secret in named:
        any_secret = True
        yield "Secret", windows_secret, {windows_proxy.KEY: windows_proxy.secret_value(egress if nodes else nothing, identity)}
    values = values_name(identity, own=egress.own_values)
    # another pair stays while it is named, after the names were changed
    pairs = [one for one in values_names(identity) if one != values and one in named]
    if (apps and proxied) or values in named:
        pairs.append(values)
    for name in pairs:
        any_secret = True
        yield "Secret", name, {VALUES: secret_text(egress if apps else nothing)}
    if (nodes or apps) and egress.trust:
        yield "ConfigMap", ca_name(identity), {BUNDLE_KEY: pem(egress.trust)}
    if any_secret:
        for name in dict.fromkeys((*pairs, values)):
            yield "ConfigMap", name, {VALUES: config_map_text(cluster, egress if apps else nothing)}


class Namesake(msgspec.Struct, frozen=True):
    """A Cluster whose id another one of the same namespace has; both as (namespace, name)."""

    holder: tuple[str, str]
    later: tuple[str, str]
    identity: str
    age_known: bool

    @property
    def text(self) -> str:
        """What comes of it."""
        who = f"the older, {self.holder[1]}, has it" if self.age_known else f"the older will have it, here {self.holder[1]}"
        clusters = f"Cluster {'/'.join(self.holder)} and Cluster {'/'.join(self.later)}"
        return f"{clusters} have one id, {self.identity}: {who}, and nothing is made for {self.later[1]}"


def namesakes(clusters: Collection[Cluster]) -> dict[tuple[str, str], Namesake]:
    """The clusters that get no objects: an older one with their id has them. Without known ages, the one named like the id."""
    claims: dict[tuple[str, str], list[Cluster]] = {}
    for cluster in clusters:
        # one whose id is none gets no objects, so no name of one
        with contextlib.suppress(InvalidIdentity):
            claims.setdefault((cluster.metadata.namespace or "", cluster_id(cluster)), []).append(cluster)
    found = {}
    for (_, identity), several in claims.items():
        holder, *others = sorted(several, key=lambda one: _age(one, identity))
        for one in others:
            known = one.metadata.creation_timestamp is not None and holder.metadata.creation_timestamp is not None
            found[key_of(one)] = Namesake(key_of(holder), key_of(one), identity, known)
    return found


def key_of(cluster: Cluster) -> tuple[str, str]:
    """Namespace and name."""
    return cluster.metadata.namespace or "", cluster.metadata.name


def _age(cluster: Cluster, identity: str) -> tuple[str, bool, str]:
    meta = cluster.metadata
    # one from a file has no time: it is not there yet
    return meta.creation_timestamp or "~", meta.name != identity, meta.name
