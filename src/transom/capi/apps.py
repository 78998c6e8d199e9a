"""What an App or a HelmRelease needs in its spec to read a cluster's values objects."""

import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from transom.capi.identity import InvalidIdentity, cluster_id, values_name
from transom.capi.values import KEY
from transom.proxy.objects import AppReference, Cluster
from transom.proxy.validation import APP_KINDS

APP, HELM_RELEASE = APP_KINDS
API_VERSIONS: Final = {APP: "application.giantswarm.io/v1alpha1", HELM_RELEASE: "helm.toolkit.fluxcd.io/v2"}
"""The kinds that can be told what to read, each with its `apiVersion` where nothing else is said."""


def cluster_of(app: AppReference, clusters: Iterable[Cluster]) -> Cluster | None:
    """The cluster that an App of the same namespace belongs to: that whose id its name begins with (`<id>-cert-manager`).

    Of several the longest id; where none fits, the one cluster that there is; else None.
    """
    near: dict[str, Cluster] = {}
    for cluster in clusters:
        if cluster.metadata.namespace == app.namespace:
            with contextlib.suppress(InvalidIdentity):
                near[cluster_id(cluster)] = cluster
    return near.get(identity_for(app.name, near) or "")


def identity_for(name: str, identities: Collection[str]) -> str | None:
    """Of the ids of a namespace that to which an App of that name belongs: see `cluster_of`."""
    named = [identity for identity in identities if name.startswith(f"{identity}-")]
    if named:
        return max(named, key=len)
    return next(iter(identities)) if len(identities) == 1 else None


def references(app: AppReference, cluster: Cluster, *, own: bool = False) -> dict[str, Any]:
    """The part of the object that refers to the values, in the form that its kind reads. Raises InvalidIdentity, KeyError."""
    fields = fields_for(app.kind, cluster_id(cluster), cluster.metadata.namespace or "", own=own)
    metadata = {"name": app.name, "namespace": app.namespace}
    api_version = app.api_version or API_VERSIONS[app.kind]
    return {"apiVersion": api_version, "kind": app.kind, "metadata": metadata, "spec": in_spec(app.kind, fields)}


def fields_for(kind: str, identity: str, namespace: str, *, own: bool = False) -> dict[str, Any]:
    """The fields by which a kind names the values objects of a cluster; `own` as in `values_name`.

    Giant Swarm's App names a ConfigMap and a Secret, whose key is `values`; Flux's HelmRelease lists them in `valuesFrom`, the
    later over the earlier, with the key of a whole values file (github.com/fluxcd/helm-controller, docs/spec/v2).
    """
    name = values_name(identity, own=own)
    if kind == HELM_RELEASE:
        return {"valuesFrom": [{"kind": one, "name": name, "valuesKey": KEY} for one in ("ConfigMap", "Secret")]}
    return {field: {"name": name, "namespace": namespace} for field in ("configMap", "secret")}


def in_spec(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The `spec` that has these fields alone."""
    return dict(fields) if kind == HELM_RELEASE else {"config": dict(fields)}
