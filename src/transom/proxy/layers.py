"""Selects the EgressProxies of each cluster and merges them: the base first, then layers, higher ones last."""

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
"""The default selector for settings with credentials: users who can read Pods see the environment of static ones."""
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


class LayeredSettings(_Values, frozen=True):
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


def find_base_settings(objects: SettingsObjects) -> EgressProxy | None:
    """`EgressProxy/cluster`: base of the settings, or, where OpenShift's Proxy is the base, of what that cannot say."""
    return next((item for item in objects.egress_proxies if item.metadata.name == BASE), None)


def build_base_layer(objects: SettingsObjects) -> Layer | None:
    """Build the base layer: from OpenShift's `Proxy/cluster` if it exists, otherwise from `EgressProxy/cluster`."""
    if objects.proxy is not None:
        return build_proxy_layer(objects.proxy)
    own = find_base_settings(objects)
    return build_egress_proxy_layer(own, objects.namespace) if own else None


def build_proxy_layer(proxy: Proxy) -> Layer:
    """OpenShift's Proxy: the URLs of its status, which are those that the operator found valid; of a new object its spec's."""
    spec, status = proxy.spec, proxy.status
    urls = status or spec
    return Layer(
        urls.http_proxy or None,
        urls.https_proxy or None,
        None,
        split(spec.no_proxy or ""),
        resolve_openshift_bundle(spec.trusted_ca.name if spec.trusted_ca else ""),
        status.no_proxy or "" if status else None,
        source=proxy,
    )


def resolve_openshift_bundle(name: str) -> tuple[str, str] | None:
    """Namespace and name of the ConfigMap that `trustedCA` of OpenShift's Proxy names; None for an empty name."""
    if not name:
        return None
    return OPENSHIFT_MANAGED if name == OPENSHIFT_BUNDLE else OPENSHIFT_CONFIG, name


def build_egress_proxy_layer(item: EgressProxy, namespace: str) -> Layer:
    """Build the layer of an EgressProxy; `namespace` is Transom's. An empty string equals a missing field."""
    spec = item.spec
    return Layer(
        spec.http_proxy or None,
        spec.https_proxy or None,
        (namespace, spec.credentials_secret.name) if spec.credentials_secret else None,
        split(spec.no_proxy or ""),
        (namespace, spec.trusted_ca.name) if spec.trusted_ca and spec.trusted_ca.name else None,
        source=item,
    )


def merge_own_layers(objects: SettingsObjects) -> LayeredSettings:
    """Return the settings of the base alone: other layers do not apply to the cluster that it is in."""
    first = build_base_layer(objects)
    return _merge_layers([first] if first else [], find_base_settings(objects))


def merge_workload_layers(objects: SettingsObjects, cluster: Cluster) -> LayeredSettings:
    """Merge the base, if its selector matches or is missing, and then matching layers by priority and name."""
    first, own = build_base_layer(objects), find_base_settings(objects)
    layers = []
    if first and (own is None or _is_selected(own, cluster)):
        layers.append(first)
    others = sorted(
        (item for item in objects.egress_proxies if item.metadata.name != BASE and _is_selected(item, cluster)),
        key=lambda item: (item.spec.priority, item.metadata.name),
    )
    layers += [build_egress_proxy_layer(item, objects.namespace) for item in others]
    return _merge_layers(layers, own if first in layers else None)


def _get_propagated_selector(spec: EgressProxySpec) -> LabelSelector | None:
    pods = spec.propagated.pods if spec.propagated is not None else None
    return pods.namespace_selector if pods is not None else None


def is_direct(layer: Layer) -> bool:
    """Return True if the layer removes the proxy and the CAs of the layers below it."""
    return isinstance(layer.source, EgressProxy) and layer.source.spec.mode == "Direct"


def _is_selected(item: EgressProxy, cluster: Cluster) -> bool:
    selector = item.spec.cluster_selector
    return selector is None or selector.matches(cluster.metadata.labels)


def _merge_layers(layers: Iterable[Layer], own: EgressProxy | None) -> LayeredSettings:
    layers = tuple(layers)
    made = LayeredSettings(layers=layers)
    specs: list[EgressProxySpec] = [own.spec] if own else []
    specs += [layer.source.spec for layer in layers if isinstance(layer.source, EgressProxy) and layer.source is not own]
    for layer in layers:
        sets = layer.http_proxy or layer.https_proxy or layer.credentials
        drops = is_direct(layer)
        unit = layer if sets else None if drops else made.unit
        made = LayeredSettings(
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
        propagated_selector=next(filter(None, map(_get_propagated_selector, reversed(specs))), None),
        consumers=next((spec.consumers for spec in reversed(specs) if spec.consumers is not None), None),
        apps=tuple(dict.fromkeys(app for spec in specs for app in spec.apps)),
    )
