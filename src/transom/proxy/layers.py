"""Which EgressProxy holds for which cluster, and what they make together: the base first, then layers, higher ones last."""

from collections.abc import Iterable

import msgspec

from transom.proxy.no_proxy import split
from transom.proxy.objects import AppReference, Cluster, Consumer, EgressProxy, EgressProxySpec, Proxy, SettingsObjects
from transom.proxy.secret import Secret

BASE = "cluster"
"""The name of the base."""
ALL_CONSUMERS: tuple[Consumer, ...] = ("Nodes", "Apps", "Pods")
OPENSHIFT_CONFIG = "openshift-config"
OPENSHIFT_MANAGED = "openshift-config-managed"
OPENSHIFT_BUNDLE = "trusted-ca-bundle"


class Layer(msgspec.Struct, frozen=True):
    """One object's part: an EgressProxy, or OpenShift's Proxy as the base, both in one shape.

    References are namespace and name. `merged` is a list that the cluster's operator has merged already.
    """

    source: EgressProxy | Proxy
    http_proxy: Secret | None = None
    https_proxy: Secret | None = None
    credentials: tuple[str, str] | None = None
    items: tuple[str, ...] = ()
    trusted_ca: tuple[str, str] | None = None
    merged: str | None = None


class Layered(msgspec.Struct, frozen=True):
    """What the layers of one cluster make together, and the objects they came from, in order."""

    http_proxy: Secret | None = None
    https_proxy: Secret | None = None
    credentials: tuple[str, str] | None = None
    items: tuple[str, ...] = ()
    trusted_ca: tuple[str, str] | None = None
    merged: str | None = None
    rollout: str = "Manual"
    propagate: bool = False
    consumers: tuple[Consumer, ...] = ALL_CONSUMERS
    apps: tuple[AppReference, ...] = ()
    layers: tuple[Layer, ...] = ()

    @property
    def configured(self) -> bool:
        """Whether there is anything to apply."""
        return bool(self.http_proxy or self.https_proxy or self.items or self.trusted_ca)


def base_settings(objects: SettingsObjects) -> EgressProxy | None:
    """`EgressProxy/cluster`: base of the settings, or, where OpenShift's Proxy is the base, of what that cannot say."""
    return next((item for item in objects.egress_proxies if item.metadata.name == BASE), None)


def base(objects: SettingsObjects) -> Layer | None:
    """The base: OpenShift's `Proxy/cluster` where there is one, else `EgressProxy/cluster`."""
    if objects.proxy is not None:
        return of_proxy(objects.proxy)
    own = base_settings(objects)
    return of_egress_proxy(own, objects.namespace) if own else None


def of_proxy(proxy: Proxy) -> Layer:
    """OpenShift's Proxy: the URLs of its status, which are those that the operator found valid; of a new object its spec's."""
    spec, status = proxy.spec, proxy.status
    urls = status or spec
    return Layer(
        proxy,
        urls.http_proxy or None,
        urls.https_proxy or None,
        None,
        split(spec.no_proxy or ""),
        openshift_bundle(spec.trusted_ca.name if spec.trusted_ca else ""),
        status.no_proxy or "" if status else None,
    )


def openshift_bundle(name: str) -> tuple[str, str] | None:
    """Namespace and name of the ConfigMap that `trustedCA` of OpenShift's Proxy names; None for an empty name."""
    if not name:
        return None
    return OPENSHIFT_MANAGED if name == OPENSHIFT_BUNDLE else OPENSHIFT_CONFIG, name


def of_egress_proxy(item: EgressProxy, namespace: str) -> Layer:
    """An EgressProxy; `namespace` is Transom's. An empty text is as good as none."""
    spec = item.spec
    return Layer(
        item,
        spec.http_proxy or None,
        spec.https_proxy or None,
        (namespace, spec.credentials_secret.name) if spec.credentials_secret else None,
        split(spec.no_proxy or ""),
        (namespace, spec.trusted_ca.name) if spec.trusted_ca and spec.trusted_ca.name else None,
    )


def of_own_cluster(objects: SettingsObjects) -> Layered:
    """The base alone: no layer holds for the cluster that it lives in."""
    first = base(objects)
    return _layered([first] if first else [], base_settings(objects))


def of_workload_cluster(objects: SettingsObjects, cluster: Cluster) -> Layered:
    """Base, where it has no selector or one that matches, then the layers that match, by priority and name."""
    first, own = base(objects), base_settings(objects)
    layers = []
    if first and (own is None or _selects(own, cluster)):
        layers.append(first)
    others = sorted(
        (item for item in objects.egress_proxies if item.metadata.name != BASE and _selects(item, cluster)),
        key=lambda item: (item.spec.priority, item.metadata.name),
    )
    layers += [of_egress_proxy(item, objects.namespace) for item in others]
    return _layered(layers, own if first in layers else None)


def _selects(item: EgressProxy, cluster: Cluster) -> bool:
    selector = item.spec.cluster_selector
    return selector is None or selector.matches(cluster.metadata.labels)


def _layered(layers: Iterable[Layer], own: EgressProxy | None) -> Layered:
    layers = tuple(layers)
    made = Layered(layers=layers)
    specs: list[EgressProxySpec] = [own.spec] if own else []
    specs += [layer.source.spec for layer in layers if isinstance(layer.source, EgressProxy) and layer.source is not own]
    for layer in layers:
        if layer.http_proxy or layer.https_proxy or layer.credentials:
            unit = (layer.http_proxy, layer.https_proxy, layer.credentials)
        else:
            unit = (made.http_proxy, made.https_proxy, made.credentials)
        made = Layered(
            *unit,
            tuple(dict.fromkeys((*made.items, *layer.items))),
            layer.trusted_ca or made.trusted_ca,
            layer.merged if layer.merged is not None else made.merged,
            layers=layers,
        )
    return msgspec.structs.replace(
        made,
        rollout=next((spec.rollout for spec in reversed(specs) if spec.rollout), "Manual"),
        propagate=next((spec.propagate for spec in reversed(specs) if spec.propagate is not None), False),
        consumers=next((spec.consumers for spec in reversed(specs) if spec.consumers is not None), ALL_CONSUMERS),
        apps=tuple(dict.fromkeys(app for spec in specs for app in spec.apps)),
    )
