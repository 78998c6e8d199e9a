"""The values objects: a workload cluster's networks and proxy, as charts read them; and references in Apps and HelmReleases.
The names are those of the RFC "Management- and Workload-clusters behind a proxy", and those that cluster-apps-operator's charts
read today."""

import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from transom.capi.bootstrap.yaml_text import Tree, render_yaml
from transom.capi.values.cluster_identity import InvalidIdentity, build_values_name, get_cluster_id
from transom.proxy.networks import compute_dns_address, find_first_cidr
from transom.proxy.objects import AppReference, Cluster
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.validation import APP_KINDS

KEY: Final = "values"
APP, HELM_RELEASE = APP_KINDS
API_VERSIONS: Final = {APP: "application.giantswarm.io/v1alpha1", HELM_RELEASE: "helm.toolkit.fluxcd.io/v2"}
"""The kinds that can reference values objects, each with its default `apiVersion`."""


def render_values_config_map(cluster: Cluster, egress: Egress) -> str:
    """Return YAML: section `cluster`, whose content the RFC prints and which charts read, without what is not known.

    Nothing stands at top level: charts merge a top-level `proxy` over `cluster.proxy`, and so over a user's own.
    """
    pods, services = find_first_cidr(cluster.pods), find_first_cidr(cluster.services)
    dns = compute_dns_address(services) if services else None
    tree: Tree = {
        "calico": _drop_empty_values(CIDR=pods),
        "kubernetes": {"API": _drop_empty_values(clusterIPRange=services), "DNS": _drop_empty_values(IP=dns)},
        "proxy": _drop_empty_values(noProxy=egress.no_proxy),
    }
    return render_yaml({"cluster": tree})


def render_values_secret(egress: Egress) -> Secret:
    """YAML: `cluster.proxy`, with the RFC's names and those that today's charts read.

    At top level as cluster-apps-operator writes it (238b0aa, service/controller/resource/clustersecret/desired.go): for
    cert-manager-app 3.0 to 4.0, which reads nothing else (its docs/upgrading.md), and `env`, which external-dns-app reads.
    """
    http, https = egress.http_proxy, egress.https_proxy
    http_url, https_url = http.reveal() if http else "", https.reveal() if https else ""
    names = _drop_empty_values(
        httpProxy=http_url, httpsProxy=https_url, http=http_url, https=https_url, noProxy=egress.no_proxy
    )
    upstream = _drop_empty_values(http_proxy=http_url, https_proxy=https_url, no_proxy=egress.no_proxy)
    variables = _drop_empty_values(NO_PROXY=egress.no_proxy, HTTP_PROXY=http_url, HTTPS_PROXY=https_url)
    env = [{"name": name, "value": value} for name, value in variables.items()]
    return Secret(render_yaml({"cluster": {"proxy": names}, **upstream, "env": env}))


def render_peer_values(egress: Egress, items: Collection[str], *, hide: bool = False) -> Secret:
    """Return the Helm values of cluster-apps-operator itself: its own merged lists are made of the `items`.

    Its chart at 238b0aa (helm/cluster-apps-operator/values.yaml) has one `proxy` for all clusters. `hide` masks the URLs.
    """
    urls = {"http": egress.http_proxy, "https": egress.https_proxy}
    texts = {name: ("***" if hide else url.reveal()) for name, url in urls.items() if url}
    return Secret(render_yaml({"proxy": _drop_empty_values(noProxy=",".join(items), **texts)}))


PEER_CHANGES: Final = frozenset("&+'<>\"%")
"""The characters of a URL that cluster-apps-operator's drop-in does not keep: it escapes as HTML, and doubles no `%`."""


def _drop_empty_values(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def find_cluster(app: AppReference, clusters: Iterable[Cluster]) -> Cluster | None:
    """Find the cluster of an App in the same namespace: its id starts the App's name (`<id>-cert-manager`).

    Of several, the longest id; if no id matches, the only cluster; else None.
    """
    near: dict[str, Cluster] = {}
    for cluster in clusters:
        if cluster.metadata.namespace == app.namespace:
            with contextlib.suppress(InvalidIdentity):
                near[get_cluster_id(cluster)] = cluster
    return near.get(find_identity(app.name, near) or "")


def find_identity(name: str, identities: Collection[str]) -> str | None:
    """Return the ID of a namespace to which an App of that name belongs: see `find_cluster`."""
    named = [identity for identity in identities if name.startswith(f"{identity}-")]
    if named:
        return max(named, key=len)
    return next(iter(identities)) if len(identities) == 1 else None


def build_references(app: AppReference, cluster: Cluster, *, own_name: bool = False) -> dict[str, Any]:
    """Build the part of the object that refers to the values, as its kind reads it. Raises InvalidIdentity, KeyError."""
    fields = build_reference_fields(app.kind, get_cluster_id(cluster), cluster.metadata.namespace or "", own_name=own_name)
    metadata = {"name": app.name, "namespace": app.namespace}
    api_version = app.api_version or API_VERSIONS[app.kind]
    return {"apiVersion": api_version, "kind": app.kind, "metadata": metadata, "spec": build_spec(app.kind, fields)}


def build_reference_fields(kind: str, identity: str, namespace: str, *, own_name: bool = False) -> dict[str, Any]:
    """Build the fields by which a kind names the values objects of a cluster; `own_name` as in `build_values_name`.

    Giant Swarm's App names a ConfigMap and a Secret, whose key is `values`. Flux's HelmRelease lists them in `valuesFrom`,
    with the key of a whole values file; the later takes precedence (github.com/fluxcd/helm-controller, docs/spec/v2).
    """
    name = build_values_name(identity, own_name=own_name)
    if kind == HELM_RELEASE:
        return {"valuesFrom": [{"kind": item, "name": name, "valuesKey": KEY} for item in ("ConfigMap", "Secret")]}
    return {field: {"name": name, "namespace": namespace} for field in ("configMap", "secret")}


def build_spec(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a `spec` with only these fields."""
    return dict(fields) if kind == HELM_RELEASE else {"config": dict(fields)}
