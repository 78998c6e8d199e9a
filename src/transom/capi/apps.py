"""What an App or a HelmRelease needs in its spec to read a cluster's values objects."""

import contextlib
from collections.abc import Collection, Iterable
from typing import Any

from transom.capi.identity import InvalidIdentity, cluster_id, values_name
from transom.capi.values import KEY
from transom.proxy.objects import AppReference, Cluster

HELM_RELEASE = "HelmRelease"


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


def references(app: AppReference, cluster: Cluster) -> dict[str, Any]:
    """The part of the object that refers to the values, in the form that its kind reads. Raises InvalidIdentity.

    Giant Swarm's App names a ConfigMap and a Secret, whose key is `values`; Flux's HelmRelease lists them in `valuesFrom`, the
    later over the earlier.
    """
    name = values_name(cluster_id(cluster))
    namespace = cluster.metadata.namespace or ""
    if app.kind == HELM_RELEASE:
        spec: dict[str, Any] = {
            "valuesFrom": [{"kind": kind, "name": name, "valuesKey": KEY} for kind in ("ConfigMap", "Secret")],
        }
    else:
        reference = {"name": name, "namespace": namespace}
        spec = {"config": {"configMap": reference, "secret": dict(reference)}}
    metadata = {"name": app.name, "namespace": app.namespace}
    return {"apiVersion": app.api_version, "kind": app.kind, "metadata": metadata, "spec": spec}
