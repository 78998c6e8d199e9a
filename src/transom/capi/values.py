"""The values objects: what charts read of a workload cluster's networks and proxy (RFC "Management- and Workload-clusters
behind a proxy"), and of today's names for it what cluster-apps-operator's charts read."""

from typing import Final

from transom.capi.yaml_text import Tree, render
from transom.proxy.networks import dns_address, first_cidr
from transom.proxy.objects import Cluster
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress

KEY: Final = "values"


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
