"""Credentials go only where they were sent: to the clusters that a selector names, never to whoever makes a Cluster.

What is made for a workload cluster lies in its own namespace, and whoever makes Clusters there reads it.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from transom.proxy.finding import Finding, Path
from transom.proxy.layers import BASE, Layer, Layered, base_settings, of_egress_proxy
from transom.proxy.objects import EgressProxy, SettingsObjects
from transom.proxy.proxy_url import has_userinfo
from transom.proxy.secret import Secret

_SHOWN: Final = 3
_PATH: Final[Path] = ("spec", "clusterSelector")


def hold_credentials(*urls: Secret | None) -> bool:
    """Whether one of the proxy URLs has a user name in it."""
    return any(url and has_userinfo(url.reveal()) for url in urls)


def withheld_by(layered: Layered, objects: SettingsObjects) -> str | None:
    """The name of the EgressProxy that does not say which clusters get a cluster's credentials; None where one does.

    It is the object that set the proxies. OpenShift's Proxy has no selector: of that EgressProxy/cluster speaks.
    """
    if layered.unit is None or not _with_credentials(layered.unit):
        return None
    source = layered.unit.source
    speaking = source if isinstance(source, EgressProxy) else base_settings(objects)
    if speaking is not None and speaking.spec.cluster_selector is not None:
        return None
    return BASE if speaking is None else speaking.metadata.name


def told(clusters: Collection[tuple[str, str]], field: str = "") -> str:
    """Why these clusters, by namespace and name, get no credentials, as one sentence; `field` begins it."""
    names = sorted("/".join(cluster) for cluster in clusters)
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    what = "1 cluster gets" if len(names) == 1 else f"{len(names):,} clusters get"
    listed = f" ({', '.join(names[:_SHOWN])}{more})" if names else ""
    return (
        f"{field}is not set, and the proxy has credentials, which whoever makes a Cluster, or reads Secrets beside one, could "
        f"read: {what} nothing that holds them, and what is there stays as it is{listed}; `{{}}` sends them to all clusters"
    )


def examine(objects: SettingsObjects, withheld: Mapping[str, Collection[tuple[str, str]]]) -> Iterator[Finding]:
    """A warning for each object whose credentials are withheld; `withheld` are clusters by name of the EgressProxy.

    A layer is for workload clusters alone: where it sends nobody its credentials, it is of no use, whatever Clusters there are.
    """
    for item in objects.egress_proxies:
        layer = of_egress_proxy(item, objects.namespace)
        idle = item.metadata.name != BASE and item.spec.cluster_selector is None and _with_credentials(layer)
        if item.metadata.name in withheld or idle:
            yield item.place.warning(_PATH, told(withheld.get(item.metadata.name, ())))
    if objects.proxy is not None and BASE in withheld and base_settings(objects) is None:
        message = f"of an EgressProxy/{BASE} beside it {told(withheld[BASE])}"
        yield objects.proxy.place.warning(_PATH, message)


def _with_credentials(layer: Layer) -> bool:
    return layer.credentials is not None or hold_credentials(layer.http_proxy, layer.https_proxy)
