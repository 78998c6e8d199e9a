"""Credentials go only to the clusters that a selector names, never to every user who creates a Cluster.

Objects for a workload cluster are in its namespace, and users who create Clusters there can read them.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from transom.common.counting import format_first
from transom.proxy.finding import Finding, Path
from transom.proxy.layers import BASE, Layer, LayeredSettings, build_egress_proxy_layer, find_base_settings
from transom.proxy.objects import EgressProxy, SettingsObjects
from transom.proxy.proxy_url import has_userinfo
from transom.proxy.secret import Secret

_SHOWN: Final = 3
_PATH: Final[Path] = ("spec", "clusterSelector")


def has_credentials(*urls: Secret | None) -> bool:
    """Return True if one of the proxy URLs has a user name in it."""
    return any(url and has_userinfo(url.reveal()) for url in urls)


def find_withholding_proxy(layered: LayeredSettings, objects: SettingsObjects) -> str | None:
    """Return the EgressProxy that must select the clusters that get its credentials; None if it does.

    It is the object that set the proxies. OpenShift's Proxy has no selector: EgressProxy/cluster selects for it.
    """
    if layered.unit is None or not _contains_credentials(layered.unit):
        return None
    source = layered.unit.source
    speaking = source if isinstance(source, EgressProxy) else find_base_settings(objects)
    if speaking is not None and speaking.spec.cluster_selector is not None:
        return None
    return BASE if speaking is None else speaking.metadata.name


def format_withheld_message(clusters: Collection[tuple[str, str]], field: str = "") -> str:
    """Why these clusters, by namespace and name, get no credentials, as one sentence; `field` begins it."""
    names = sorted("/".join(cluster) for cluster in clusters)
    what = "1 cluster gets" if len(names) == 1 else f"{len(names):,} clusters get"
    listed = f" ({format_first(names, _SHOWN)})" if names else ""
    return (
        f"{field}is not set, and users who can create a Cluster or read its Secrets could read the proxy's credentials: "
        f"{what} no settings with credentials, and existing objects stay unchanged{listed}; `{{}}` selects all clusters"
    )


def find_withheld_credentials(
    objects: SettingsObjects, withheld: Mapping[str, Collection[tuple[str, str]]]
) -> Iterator[Finding]:
    """Yield a warning for each object whose credentials are withheld; `withheld` are clusters by EgressProxy name.

    A layer is only for workload clusters: if it sends its credentials to none of them, it has no effect, whatever Clusters
    exist.
    """
    for item in objects.egress_proxies:
        layer = build_egress_proxy_layer(item, objects.namespace)
        idle = item.metadata.name != BASE and item.spec.cluster_selector is None and _contains_credentials(layer)
        if item.metadata.name in withheld or idle:
            yield item.place.build_warning(_PATH, format_withheld_message(withheld.get(item.metadata.name, ())))
    if objects.proxy is not None and BASE in withheld and find_base_settings(objects) is None:
        message = f"of an EgressProxy/{BASE} next to it {format_withheld_message(withheld[BASE])}"
        yield objects.proxy.place.build_warning(_PATH, message)


def _contains_credentials(layer: Layer) -> bool:
    return layer.credentials is not None or has_credentials(layer.http_proxy, layer.https_proxy)
