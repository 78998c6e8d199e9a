"""The values objects: a workload cluster's networks and proxy, as charts read them; and how Apps and HelmReleases are told to.
The names are those of the RFC "Management- and Workload-clusters behind a proxy", and those that cluster-apps-operator's charts
read today."""

import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from transom.capi.identity import InvalidIdentity, cluster_id, values_name
from transom.capi.yaml_text import Tree, render
from transom.proxy.networks import dns_address, first_cidr
from transom.proxy.objects import AppReference, Cluster
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.validation import APP_KINDS

KEY: Final = "values"
APP, HELM_RELEASE = APP_KINDS
API_VERSIONS: Final = {APP: "application.giantswarm.io/v1alpha1", HELM_RELEASE: "helm.toolkit.fluxcd.io/v2"}
"""The kinds that can be told what to read, each with its `apiVersion` where nothing else is said."""


def config_map_text(cluster: Cluster, egress: Egress) -> str:
    """YAML, at top level as the RFC prints it and under `cluster` as the charts read it; what is not known is left out."""
    pods, services = first_cidr(cluster.pods), first_cidr(cluster.services)
    dns = dns_address(services) if services else None
    found: Tree = {
        "calico": _known(CIDR=pods),
        "kubernetes": {"API": _known(clusterIPRange=services), "DNS": _known(IP=dns)},
        "proxy": _known(noProxy=egress.no_proxy),
    }
    return render({**found, "cluster": found})


def secret_text(egress: Egress) -> Secret:
    """YAML: `cluster.proxy`, with the RFC's names and those that today's charts read.

    At top level too, for those of upstream: cert-manager-app 3.0 to 4.0 reads nothing else (its docs/upgrading.md).
    """
    http, https = egress.http_proxy, egress.https_proxy
    http_url, https_url = http.reveal() if http else "", https.reveal() if https else ""
    names = _known(httpProxy=http_url, httpsProxy=https_url, http=http_url, https=https_url, noProxy=egress.no_proxy)
    upstream = _known(http_proxy=http_url, https_proxy=https_url, no_proxy=egress.no_proxy)
    return Secret(render({"cluster": {"proxy": names}, **upstream}))


def _known(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


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

    Giant Swarm's App names a ConfigMap and a Secret, whose key is `values`. Flux's HelmRelease lists them in `valuesFrom`, with
    the key of a whole values file; the later takes precedence (github.com/fluxcd/helm-controller, docs/spec/v2).
    """
    name = values_name(identity, own=own)
    if kind == HELM_RELEASE:
        return {"valuesFrom": [{"kind": one, "name": name, "valuesKey": KEY} for one in ("ConfigMap", "Secret")]}
    return {field: {"name": name, "namespace": namespace} for field in ("configMap", "secret")}


def in_spec(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The `spec` that has these fields alone."""
    return dict(fields) if kind == HELM_RELEASE else {"config": dict(fields)}
