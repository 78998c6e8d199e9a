"""The egress settings of a cluster, as its consumers get them: effective, merged, validated."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Literal, Protocol

import msgspec

from transom.proxy import layers, merging, networks, no_proxy, url, validation, withholding
from transom.proxy.finding import Finding
from transom.proxy.layers import ALL_CONSUMERS, WITH_CREDENTIALS, Layer, Layered
from transom.proxy.objects import (
    AppReference,
    Cluster,
    Consumer,
    EgressProxy,
    LabelSelector,
    LinuxSettings,
    Networks,
    PodsSettings,
    SettingsObjects,
    WindowsSettings,
)
from transom.proxy.secret import Secret
from transom.proxy.trust import Certificate, parse_bundle

__all__ = ["VARIABLES", "Consumer", "Effective", "Egress", "WindowsSettings", "effective"]

VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""The variables that programs read, in the order in which they are set."""


class Egress(msgspec.Struct, frozen=True):
    """The valid settings of one cluster. Nothing configured: both URLs None, `no_proxy` empty, `trust` empty.

    The URLs are whole, with the credentials percent-encoded in them. `no_proxy` is the merged list of this cluster.
    """

    http_proxy: Secret | None = None
    https_proxy: Secret | None = None
    no_proxy: str = ""
    trust: tuple[Certificate, ...] = ()
    windows: WindowsSettings = WindowsSettings()
    readiness_endpoints: tuple[str, ...] = ()
    readiness_policy: Literal["Gate", "Report"] = "Gate"
    consumers: tuple[Consumer, ...] = ALL_CONSUMERS
    rollout: str = "Manual"
    propagate: bool = False
    apps: tuple[AppReference, ...] = ()
    api_server_known: bool = True
    """Whether `no_proxy` covers the API server by name or address. Where it does not, a kubelet must not be given it."""
    pods: PodsSettings = PodsSettings()
    """Of the own cluster alone."""
    missing: bool = False
    """Whether no object speaks of the cluster, neither a base nor a layer: that is not "no proxy", and takes nothing away."""
    propagated_selector: LabelSelector | None = None
    """Of a workload cluster: what it gets as the `namespaceSelector` of its `pods`; None leaves what is there alone."""
    own_values: bool = False
    """Whether the values objects have names of our own, beside those of a peer."""
    linux: LinuxSettings = LinuxSettings()
    direct: bool = False
    """Whether a layer says that there is to be no proxy: it is known, and not only that nobody set one."""

    @property
    def configured(self) -> bool:
        """Whether there is anything to apply."""
        return bool(self.http_proxy or self.https_proxy or self.trust)

    @property
    def as_judged(self) -> str:
        """All that a host gets, and the endpoints by which it is judged, as a text that is the same in each process.

        It holds credentials: for keyed hashes alone.
        """
        trust = [one.sha256 for one in self.trust]
        return msgspec.json.encode((self.variables, trust, self.windows, self.readiness_endpoints)).decode()

    @property
    def holds_credentials(self) -> bool:
        """Whether a URL has a user name in it."""
        return withholding.hold_credentials(self.http_proxy, self.https_proxy)

    def proxy_for(self, endpoint: str) -> Secret | None:
        """The proxy through which a readiness endpoint is tried: that of its scheme.

        Where `httpProxy` stands alone, an https endpoint goes through it, as OpenShift's operator does: such settings are valid
        of OpenShift's Proxy alone.
        """
        plain = endpoint.lower().startswith("http:")
        return self.http_proxy if plain else self.https_proxy or self.http_proxy

    @property
    def variables(self) -> dict[str, str]:
        """`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`, in this order, those that have a value. The values may hold credentials."""
        http, https = self.http_proxy, self.https_proxy
        values = (http.reveal() if http else "", https.reveal() if https else "", self.no_proxy)
        return {name: value for name, value in zip(VARIABLES, values, strict=True) if value}


class Instance(Protocol):
    """What a host says about itself here: the Cluster API cluster whose settings hold for it."""

    @property
    def cluster(self) -> tuple[str, str] | None:
        """Namespace and name, None for the cluster that the objects describe."""
        ...


class Withheld(msgspec.Struct, frozen=True):
    """Settings with credentials that were not sent to a cluster: it gets nothing new, and keeps what it has.

    `by` is the name of the EgressProxy that has no `clusterSelector`.
    """

    by: str
    egress: Egress


class Effective(msgspec.Struct, frozen=True):
    """The settings of every cluster that the objects know; None where they are invalid, or in `withheld`."""

    own: Egress | None
    clusters: dict[tuple[str, str], Egress | None]
    networks: Networks
    findings: tuple[Finding, ...]
    withheld: dict[tuple[str, str], Withheld] = {}

    def of(self, instance: Instance) -> Egress | None:
        """The settings of a host: those of its cluster that are for nodes. None where they are invalid or withheld."""
        egress = self.own if instance.cluster is None else self.clusters.get(instance.cluster)
        withheld = self.withheld_from(instance)
        known = withheld.egress if withheld is not None else egress
        if known is not None and "Nodes" not in known.consumers:
            return Egress(windows=known.windows)
        return egress

    def withheld_from(self, instance: Instance) -> Withheld | None:
        """What a host does not get, since its cluster does not."""
        return None if instance.cluster is None else self.withheld.get(instance.cluster)

    def asked_for(self, cluster: tuple[str, str]) -> Egress | None:
        """The settings of a cluster for a person who asks to be shown them, withheld or not. None where they are invalid."""
        return self.withheld[cluster].egress if cluster in self.withheld else self.clusters[cluster]


def effective(objects: SettingsObjects, now: datetime, server: str | None = None) -> Effective:
    """Validate everything and compute the settings of the own cluster and of every Cluster API `Cluster`.

    `objects` are all that was read; the dates of certificates are compared with `now`. `server` is the URL of the API server in
    Transom's own kubeconfig. What is wrong is a finding. A cluster's settings are None when any object that they are made of
    has an error; others are not touched by it.
    """
    findings: list[Finding] = []
    broken = {finding.object for finding in getattr(objects, "findings", ()) if finding.severity == "error"}
    base = layers.base_settings(objects)
    misnamed = base is None and objects.proxy is None and not objects.clusters
    for layer in _all_layers(objects):
        found = list(validation.examine(layer, objects, now, misnamed=misnamed))
        findings += found
        if any(finding.severity == "error" for finding in found):
            broken.add(layer.source.place.object)

    of_settings = len(findings)
    if misnamed:
        message = f"no EgressProxy is named `{layers.BASE}`, so no host gets settings: name the one for this cluster so"
        findings += [item.place.error(("metadata", "name"), message) for item in objects.egress_proxies]
    if base and objects.proxy:
        fields = "the proxies, noProxy, trustedCA and readinessEndpoints"
        message = f"OpenShift's Proxy/cluster is the base: {fields} of this object are not used"
        findings.append(base.place.warning(("metadata", "name"), message))
    known = networks.of_own_cluster(objects, base.spec.networks if base else None, server)
    own = layers.of_own_cluster(objects)
    merged = _merge_own(own, known)
    builder = _Builder(objects, broken)
    findings += networks.examine_sources(objects, base.spec.networks if base else None)
    own_found = list(_own_findings(own, merged)) if builder.sound(own) else []
    findings += own_found
    egress = (
        None
        if any(f.severity == "error" for f in own_found)
        else builder.egress(own, merged.text, bool(known.internal_api_host))
    )

    if egress is not None and base is not None and base.spec.pods is not None:
        egress = msgspec.structs.replace(egress, pods=base.spec.pods)

    clusters: dict[tuple[str, str], Egress | None] = {}
    withheld: dict[tuple[str, str], Withheld] = {}
    halves: dict[str, Layer] = {}
    for cluster in objects.clusters:
        layered = layers.of_workload_cluster(objects, cluster)
        text = _merge_workload(objects, layered, cluster).text
        key = (cluster.metadata.namespace or "", cluster.metadata.name)
        addresses = objects.machine_addresses.get(key, ())
        found = list(_cluster_findings(layered, cluster, text, addresses)) if builder.sound(layered) else []
        findings += found
        invalid = any(finding.severity == "error" for finding in found)
        made = None if invalid else builder.egress(layered, text, bool(cluster.endpoint_host))
        by = withholding.withheld_by(layered, objects)
        if made is not None and by is not None and _reaches(made):
            withheld[key] = Withheld(by, made)
        clusters[key] = None if key in withheld else made
        if made is not None and layered.unit is not None and "Apps" in made.consumers:
            halves[layered.unit.source.place.object] = layered.unit
    by_layer: dict[str, list[tuple[str, str]]] = {}
    for key, one in withheld.items():
        by_layer.setdefault(one.by, []).append(key)
    findings += withholding.examine(objects, by_layer)
    # before what is said of networks: of many warnings a condition shows the first
    findings[of_settings:of_settings] = (finding for layer in halves.values() for finding in _half(layer))
    return Effective(egress, clusters, known, tuple(findings), withheld)


def _reaches(egress: Egress) -> bool:
    """Whether anything is made of these settings for a workload cluster."""
    return egress.propagate or any(one in egress.consumers for one in ("Nodes", "Apps", "StaticPods"))


def _all_layers(objects: SettingsObjects) -> Iterator[Layer]:
    if objects.proxy is not None:
        yield layers.of_proxy(objects.proxy)
    for item in objects.egress_proxies:
        yield layers.of_egress_proxy(item, objects.namespace)


def merged_no_proxy(objects: SettingsObjects, known: Networks, cluster: Cluster | None = None) -> merging.MergedNoProxy:
    """The list of a `cluster` with the reason of each item. None is the own cluster, whose networks are `known`."""
    if cluster is None:
        return _merge_own(layers.of_own_cluster(objects), known)
    return _merge_workload(objects, layers.of_workload_cluster(objects, cluster), cluster)


def _merge_own(layered: Layered, known: Networks) -> merging.MergedNoProxy:
    if layered.merged is not None:
        part = merging.MergedPart("OpenShift's operator, in the status of Proxy/cluster", no_proxy.split(layered.merged))
        return merging.MergedNoProxy((part,), verbatim=layered.merged)
    if not (layered.http_proxy or layered.https_proxy):
        return merging.MergedNoProxy()
    return merging.of_own_cluster(known, _users(layered))


def _merge_workload(objects: SettingsObjects, layered: Layered, cluster: Cluster) -> merging.MergedNoProxy:
    if not (layered.http_proxy or layered.https_proxy):
        return merging.MergedNoProxy()
    return merging.of_workload_cluster(cluster, _users(layered), _machine_networks(layered), objects.infrastructure_of(cluster))


def _users(layered: Layered) -> Iterator[merging.MergedPart]:
    for layer in layered.layers:
        if layer.items:
            yield merging.MergedPart(f"spec.noProxy of {layer.source.place.object}", layer.items)


def _machine_networks(layered: Layered) -> Iterator[merging.MergedPart]:
    """Of layers alone: what the base says is of the cluster that it lives in."""
    for layer in layered.layers:
        source = layer.source
        if isinstance(source, EgressProxy) and source.metadata.name != layers.BASE and source.spec.networks:
            reason = f"spec.networks.machineNetwork of {source.place.object}"
            yield merging.MergedPart(reason, source.spec.networks.machine_network)


def _own_findings(layered: Layered, merged: merging.MergedNoProxy) -> Iterator[Finding]:
    if not layered.layers:
        return
    place = layered.layers[0].source.place
    yield from _length(layered.layers[0], merged.text, "this cluster")
    for field in merged.unknown:
        message = f"the cluster's {field} is not known and is left out of NO_PROXY: set spec.networks.{field} of the base"
        yield place.warning(("spec", "networks", field), message)


def _cluster_findings(layered: Layered, cluster: Cluster, text: str, addresses: tuple[str, ...]) -> Iterator[Finding]:
    if not layered.layers:
        return
    name = cluster.place.object
    yield from networks.examine_cluster(cluster)
    last = next((layer for layer in reversed(layered.layers) if layer.items), layered.layers[-1])
    proxied = layered.http_proxy or layered.https_proxy or layered.direct
    if layered.items and not proxied and last.source.metadata.name != layers.BASE:
        message = f"stands without a proxy for {name}: no layer that holds for it sets spec.httpProxy or spec.httpsProxy"
        yield last.source.place.error(("spec", "noProxy"), message)
    yield from _length(last, text, name)
    if not text or text == no_proxy.ALL:
        return
    for known, what in ((cluster.services, "services"), (cluster.pods, "pods")):
        if not known:
            message = f"the cluster's {what} network is not known and is left out of NO_PROXY"
            yield cluster.place.warning(("spec", "clusterNetwork", what, "cidrBlocks"), message)
    if not cluster.endpoint_host:
        path = ("spec", "controlPlaneEndpoint", "host")
        yield cluster.place.warning(path, "the API server's host is not known yet and is left out of NO_PROXY")
    if outside := no_proxy.uncovered(text, addresses):
        yield cluster.place.warning(("spec", "infrastructureRef"), f"of its Machines {no_proxy.uncovered_text(outside)}")


def _half(layer: Layer) -> Iterator[Finding]:
    """chart-operator 4.2.0, helm/chart-operator/templates/deployment.yaml: `if and $proxy.noProxy $proxy.http $proxy.https`."""
    for field, missing, other in (
        ("httpProxy", not layer.http_proxy, "httpsProxy"),
        ("httpsProxy", not layer.https_proxy, "httpProxy"),
    ):
        if missing:
            message = (
                f"is not set, only spec.{other} is: chart-operator of workload clusters takes both or none, so it gets no "
                "proxy; set both, they may be the same URL"
            )
            yield layer.source.place.warning(("spec", field), message)


def _length(layer: Layer, text: str, whose: str) -> Iterator[Finding]:
    place = layer.source.place
    if len(text) > no_proxy.MAX_LENGTH:
        message = f"the merged list of {whose} has {len(text):,} characters: at most {no_proxy.MAX_LENGTH:,} are taken"
        yield place.error(("spec", "noProxy"), message)
    elif len(text) > no_proxy.WARN_LENGTH:
        yield place.warning(
            ("spec", "noProxy"), f"the merged list of {whose} has {len(text):,} characters: use CIDRs and domains"
        )


class _Builder:
    """Makes an Egress of what the layers say; a trust bundle that many clusters share is parsed once."""

    def __init__(self, objects: SettingsObjects, broken: set[str]) -> None:
        self._objects = objects
        self._broken = broken
        self._bundles: dict[tuple[str, str], tuple[Certificate, ...]] = {}
        self._base = layers.base_settings(objects)

    def sound(self, layered: Layered) -> bool:
        """Whether no object that has a part in it has an error; a file that was not read could be any of them."""
        parts = {layer.source.place.object for layer in layered.layers}
        if self._base:
            parts.add(self._base.place.object)
        if layered.credentials and (secret := self._objects.secret(*layered.credentials)):
            parts.add(secret.place.object)
        return not parts & self._broken and "" not in self._broken

    def egress(self, layered: Layered, text: str, api_server_known: bool) -> Egress | None:
        """The settings, None where they are not sound."""
        if not self.sound(layered):
            return None
        spec = self._base.spec if self._base else None
        http, https = (self._joined(one, layered.credentials) for one in (layered.http_proxy, layered.https_proxy))
        default = WITH_CREDENTIALS if withholding.hold_credentials(http, https) else ALL_CONSUMERS
        endpoints = layered.layers[0].source.spec.readiness_endpoints if layered.layers else None
        return Egress(
            http,
            https,
            text,
            self._trust(layered.trusted_ca),
            (spec.windows if spec else None) or WindowsSettings(),
            tuple(one.reveal() for one in endpoints or () if validation.endpoint_fault(one.reveal()) is None),
            (spec.readiness_policy if spec else None) or "Gate",
            layered.consumers if layered.consumers is not None else default,
            layered.rollout,
            layered.propagate,
            layered.apps,
            api_server_known or not text or text == no_proxy.ALL or layered.merged is not None,
            missing=not layered.layers,
            propagated_selector=layered.propagated_selector,
            direct=layered.direct,
            linux=(spec.linux if spec else None) or LinuxSettings(),
            own_values=spec is not None and spec.values is not None and spec.values.names == "Own",
        )

    def _joined(self, proxy: Secret | None, credentials: tuple[str, str] | None) -> Secret | None:
        if proxy is None or credentials is None:
            return proxy
        secret = self._objects.secret(*credentials)
        username, password = (secret.data.get(key) if secret else None for key in ("username", "password"))
        return Secret(
            url.with_userinfo(proxy.reveal(), username.reveal() if username else "", password.reveal() if password else "")
        )

    def _trust(self, reference: tuple[str, str] | None) -> tuple[Certificate, ...]:
        if reference is None:
            return ()
        if reference not in self._bundles:
            config_map = self._objects.config_map(*reference)
            text = config_map.data.get(validation.BUNDLE_KEY, "") if config_map else ""
            self._bundles[reference] = parse_bundle(text).certificates
        return self._bundles[reference]
