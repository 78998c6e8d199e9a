"""Which EgressProxy holds for which cluster, and what they make together: the base first, then layers, higher ones last."""

from collections.abc import Iterable

import msgspec

from transom.proxy.no_proxy import split
from transom.proxy.objects import (
    AppReference,
    Cluster,
    Consumer,
    EgressProxy,
    EgressProxySpec,
    LabelSelector,
    Proxy,
    SettingsObjects,
)
from transom.proxy.secret import Secret

BASE = "cluster"
"""The name of the base."""
ALL_CONSUMERS: tuple[Consumer, ...] = ("Nodes", "Apps", "Pods", "StaticPods")
WITH_CREDENTIALS: tuple[Consumer, ...] = ("Nodes", "Apps", "Pods")
"""Who gets settings with credentials where nobody is named: whoever reads Pods reads the environment of static ones."""
OPENSHIFT_CONFIG = "openshift-config"
OPENSHIFT_MANAGED = "openshift-config-managed"
OPENSHIFT_BUNDLE = "trusted-ca-bundle"


class _Values(msgspec.Struct, frozen=True):
    """References are namespace and name. `merged` is a list that the cluster's operator has merged already."""

    http_proxy: Secret | None = None
    https_proxy: Secret | None = None
    credentials: tuple[str, str] | None = None
    items: tuple[str, ...] = ()
    trusted_ca: tuple[str, str] | None = None
    merged: str | None = None


class Layer(_Values, frozen=True, kw_only=True):
    """One object's part: an EgressProxy, or OpenShift's Proxy as the base, both in one shape."""

    source: EgressProxy | Proxy


class Layered(_Values, frozen=True):
    """What the layers of one cluster make together, and the objects they came from, in order."""

    rollout: str = "Manual"
    propagate: bool = False
    propagated_selector: LabelSelector | None = None
    direct: bool = False
    """Whether the highest word on a proxy is that there is none."""
    consumers: tuple[Consumer, ...] | None = None
    """None where no layer names any."""
    apps: tuple[AppReference, ...] = ()
    layers: tuple[Layer, ...] = ()
    unit: Layer | None = None
    """The layer that set the proxies and their credentials."""

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
        urls.http_proxy or None,
        urls.https_proxy or None,
        None,
        split(spec.no_proxy or ""),
        openshift_bundle(spec.trusted_ca.name if spec.trusted_ca else ""),
        status.no_proxy or "" if status else None,
        source=proxy,
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
        spec.http_proxy or None,
        spec.https_proxy or None,
        (namespace, spec.credentials_secret.name) if spec.credentials_secret else None,
        split(spec.no_proxy or ""),
        (namespace, spec.trusted_ca.name) if spec.trusted_ca and spec.trusted_ca.name else None,
        source=item,
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


def _propagated(spec: EgressProxySpec) -> LabelSelector | None:
    pods = spec.propagated.pods if spec.propagated is not None else None
    return pods.namespace_selector if pods is not None else None


def is_direct(layer: Layer) -> bool:
    """Whether it takes the proxy and the CAs of the layers below it away."""
    return isinstance(layer.source, EgressProxy) and layer.source.spec.mode == "Direct"


def _selects(item: EgressProxy, cluster: Cluster) -> bool:
    selector = item.spec.cluster_selector
    return selector is None or selector.matches(cluster.metadata.labels)


def _layered(layers: Iterable[Layer], own: EgressProxy | None) -> Layered:
    layers = tuple(layers)
    made = Layered(layers=layers)
    specs: list[EgressProxySpec] = [own.spec] if own else []
    specs += [layer.source.spec for layer in layers if isinstance(layer.source, EgressProxy) and layer.source is not own]
    for layer in layers:
        sets = layer.http_proxy or layer.https_proxy or layer.credentials
        drops = is_direct(layer)
        unit = layer if sets else None if drops else made.unit
        made = Layered(
            unit.http_proxy if unit else None,
            unit.https_proxy if unit else None,
            unit.credentials if unit else None,
            tuple(dict.fromkeys((*made.items, *layer.items))),
            layer.trusted_ca or (None if drops else made.trusted_ca),
            layer.merged if layer.merged is not None else made.merged,
            direct=not sets and (drops or made.direct),
            layers=layers,
            unit=unit,
        )
    return msgspec.structs.replace(
        made,
        rollout=next((spec.rollout for spec in reversed(specs) if spec.rollout), "Manual"),
        propagate=next((spec.propagate for spec in reversed(specs) if spec.propagate is not None), False),
        propagated_selector=next(filter(None, map(_propagated, reversed(specs))), None),
        consumers=next((spec.consumers for spec in reversed(specs) if spec.consumers is not None), None),
        apps=tuple(dict.fromkeys(app for spec in specs for app in spec.apps)),
    )
