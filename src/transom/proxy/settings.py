"""The egress settings of a cluster, as its consumers get them: effective, merged, validated."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Literal, Protocol

import msgspec

from transom.proxy import layers, merging, networks, no_proxy, url, validation, withholding
from transom.proxy.finding import Finding, Place
from transom.proxy.layers import ALL_CONSUMERS, WITH_CREDENTIALS, Layer, LayeredSettings
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
from transom.proxy.pods_list import PodsList, build_pods_list
from transom.proxy.secret import Secret
from transom.proxy.trust import Certificate, parse_bundle

__all__ = ["VARIABLES", "Consumer", "Egress", "ResolvedSettings", "WindowsSettings", "resolve_settings"]

VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""The variables that programs read, in the order in which they are set."""


_MACHINE_PLATFORMS: Final = frozenset(("AWS", "Azure", "GCP", "VSphere", "Nutanix"))
"""Platforms of OpenShift whose Machine API gives Windows machines user data."""


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
    """Whether no object selects the cluster, neither a base nor a layer: that is not "no proxy", and removes nothing."""
    propagated_selector: LabelSelector | None = None
    """Of a workload cluster: what it gets as the `namespaceSelector` of its `pods`; None leaves it unchanged."""
    own_values: bool = False
    """Whether the values objects have Transom's names, in addition to those of a peer."""
    own_drop_in: bool = False
    """Whether the Secret of the drop-in has its own name, next to that of a peer."""
    linux: LinuxSettings = LinuxSettings()
    direct: bool = False
    """Whether a layer explicitly disables the proxy, and does not only omit it."""

    @property
    def configured(self) -> bool:
        """Whether there is anything to apply."""
        return bool(self.http_proxy or self.https_proxy or self.trust)

    @property
    def evaluation_key(self) -> str:
        """Return the settings of a host and its test endpoints as a string that is equal in each process.

        It holds credentials: use it for keyed hashes only.
        """
        trust = [item.sha256 for item in self.trust]
        return msgspec.json.encode((self.variables, trust, self.windows, self.readiness_endpoints)).decode()

    @property
    def pods_list(self) -> PodsList:
        """The NO_PROXY of pods."""
        return build_pods_list(self.no_proxy, keep_ipv6_networks=self.pods.ipv6_networks == "Keep")

    @property
    def holds_credentials(self) -> bool:
        """Whether a URL has a user name in it."""
        return withholding.has_credentials(self.http_proxy, self.https_proxy)

    def select_proxy(self, endpoint: str) -> Secret | None:
        """Select the proxy for the test of a readiness endpoint, by the endpoint's scheme.

        If only `httpProxy` is set, it is also used for https endpoints, as OpenShift's operator does: such settings are
        valid only for OpenShift's Proxy.
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
    """What a host declares about itself: the Cluster API cluster whose settings apply to it."""

    @property
    def cluster(self) -> tuple[str, str] | None:
        """Namespace and name, None for the cluster that the objects describe."""
        ...


class WithheldSettings(msgspec.Struct, frozen=True):
    """Settings with credentials that were not sent to a cluster: it gets nothing new, and keeps what it has.

    `by` is the name of the EgressProxy that has no `clusterSelector`.
    """

    egress_proxy: str
    egress: Egress


class ResolvedSettings(msgspec.Struct, frozen=True):
    """The settings of every cluster that the objects know; None where they are invalid, or in `withheld`."""

    own: Egress | None
    clusters: dict[tuple[str, str], Egress | None]
    networks: Networks
    findings: tuple[Finding, ...]
    withheld: dict[tuple[str, str], WithheldSettings] = {}

    def for_instance(self, instance: Instance) -> Egress | None:
        """Return the node settings of a host's cluster; None if they are invalid or withheld."""
        egress = self.own if instance.cluster is None else self.clusters.get(instance.cluster)
        withheld = self.find_withheld(instance)
        known = withheld.egress if withheld is not None else egress
        if known is not None and "Nodes" not in known.consumers:
            return Egress(windows=known.windows)
        return egress

    def find_withheld(self, instance: Instance) -> WithheldSettings | None:
        """Return the settings that are withheld from a host's cluster, or None."""
        return None if instance.cluster is None else self.withheld.get(instance.cluster)

    def get_with_withheld(self, cluster: tuple[str, str]) -> Egress | None:
        """Return the settings of a cluster for display, even if withheld. None if they are invalid."""
        return self.withheld[cluster].egress if cluster in self.withheld else self.clusters[cluster]


def resolve_settings(objects: SettingsObjects, now: datetime, server: str | None = None) -> ResolvedSettings:
    """Validate everything and compute the settings of the own cluster and of every Cluster API `Cluster`.

    `objects` are all that was read; the dates of certificates are compared with `now`. `server` is the URL of the API server in
    Transom's own kubeconfig. What is wrong is a finding. A cluster's settings are None when any object that they are made of
    has an error; others are not touched by it.
    """
    findings: list[Finding] = []
    broken = {finding.object for finding in getattr(objects, "findings", ()) if finding.severity == "error"}
    base = layers.find_base_settings(objects)
    misnamed = base is None and objects.proxy is None and not objects.clusters
    for layer in _iter_layers(objects):
        layer_findings = list(validation.examine_layer(layer, objects, now, misnamed=misnamed))
        findings += layer_findings
        if any(finding.severity == "error" for finding in layer_findings):
            broken.add(layer.source.place.object)

    of_settings = len(findings)
    if misnamed:
        message = f"no EgressProxy is named `{layers.BASE}`, so no host gets settings: rename the one for this cluster"
        findings += [item.place.build_error(("metadata", "name"), message) for item in objects.egress_proxies]
    if base and objects.proxy:
        fields = "the proxies, noProxy, trustedCA and readinessEndpoints"
        message = f"OpenShift's Proxy/cluster sets the defaults: {fields} of this object are ignored"
        findings.append(base.place.build_warning(("metadata", "name"), message))
    known = networks.resolve_own_networks(objects, base.spec.networks if base else None, server)
    own = layers.merge_own_layers(objects)
    merged = _merge_own(own, known)
    builder = _EgressBuilder(objects, broken)
    findings += networks.examine_network_sources(objects, base.spec.networks if base else None)
    own_found = list(_iter_own_findings(own, merged)) if builder.is_error_free(own) else []
    findings += own_found
    egress = (
        None
        if any(f.severity == "error" for f in own_found)
        else builder.build_egress(own, merged.text, bool(known.internal_api_host))
    )

    if egress is not None and base is not None and base.spec.pods is not None:
        egress = msgspec.structs.replace(egress, pods=base.spec.pods)
    if egress is not None:
        findings += _iter_harm_findings(own, egress, has_pods="Pods" in egress.consumers)
        findings += _check_plain_proxies(own, egress, objects)

    clusters: dict[tuple[str, str], Egress | None] = {}
    withheld: dict[tuple[str, str], WithheldSettings] = {}
    halves: dict[str, Layer] = {}
    for cluster in objects.clusters:
        layered = layers.merge_workload_layers(objects, cluster)
        text = _merge_workload(objects, layered, cluster).text
        key = (cluster.metadata.namespace or "", cluster.metadata.name)
        addresses = objects.machine_addresses.get(key, ())
        layer_findings = (
            list(_iter_cluster_findings(layered, cluster, text, addresses)) if builder.is_error_free(layered) else []
        )
        findings += layer_findings
        invalid = any(finding.severity == "error" for finding in layer_findings)
        made = None if invalid else builder.build_egress(layered, text, bool(cluster.endpoint_host))
        by = withholding.find_withholding_proxy(layered, objects)
        if made is not None and by is not None and _is_used(made):
            withheld[key] = WithheldSettings(by, made)
        clusters[key] = None if key in withheld else made
        if made is not None:
            # its pods get what its own settings say, once it has them
            findings += _iter_harm_findings(layered, made, has_pods=False)
        if made is not None and layered.unit is not None and "Apps" in made.consumers:
            halves[layered.unit.source.place.object] = layered.unit
    by_layer: dict[str, list[tuple[str, str]]] = {}
    for key, entry in withheld.items():
        by_layer.setdefault(entry.egress_proxy, []).append(key)
    findings += withholding.find_withheld_credentials(objects, by_layer)
    # before what is said of networks: of many warnings a condition shows the first
    findings[of_settings:of_settings] = (finding for layer in halves.values() for finding in _check_incomplete_proxy(layer))
    return ResolvedSettings(egress, clusters, known, tuple(findings), withheld)


def _is_used(egress: Egress) -> bool:
    """Return True if a workload cluster uses any of these settings."""
    return egress.propagate or any(item in egress.consumers for item in ("Nodes", "Apps", "StaticPods"))


def _iter_layers(objects: SettingsObjects) -> Iterator[Layer]:
    if objects.proxy is not None:
        yield layers.build_proxy_layer(objects.proxy)
    for item in objects.egress_proxies:
        yield layers.build_egress_proxy_layer(item, objects.namespace)


def merge_no_proxy(objects: SettingsObjects, known: Networks, cluster: Cluster | None = None) -> merging.MergedNoProxy:
    """Merge the list of a `cluster`, with reasons. None is the own cluster, whose networks are `known`."""
    if cluster is None:
        return _merge_own(layers.merge_own_layers(objects), known)
    return _merge_workload(objects, layers.merge_workload_layers(objects, cluster), cluster)


def _merge_own(layered: LayeredSettings, known: Networks) -> merging.MergedNoProxy:
    if layered.merged is not None:
        part = merging.MergedPart("OpenShift's operator, in the status of Proxy/cluster", no_proxy.split(layered.merged))
        return merging.MergedNoProxy((part,), verbatim=layered.merged)
    if not (layered.http_proxy or layered.https_proxy):
        return merging.MergedNoProxy()
    return merging.merge_own_cluster(known, _iter_user_parts(layered))


def _merge_workload(objects: SettingsObjects, layered: LayeredSettings, cluster: Cluster) -> merging.MergedNoProxy:
    if not (layered.http_proxy or layered.https_proxy):
        return merging.MergedNoProxy()
    return merging.merge_workload_cluster(
        cluster, _iter_user_parts(layered), _iter_machine_networks(layered), objects.find_infrastructure(cluster)
    )


def _iter_user_parts(layered: LayeredSettings) -> Iterator[merging.MergedPart]:
    for layer in layered.layers:
        if layer.items:
            yield merging.MergedPart(f"spec.noProxy of {layer.source.place.object}", layer.items)


def _iter_machine_networks(layered: LayeredSettings) -> Iterator[merging.MergedPart]:
    """Yield the machine networks of layers only: the base's networks are of its own cluster."""
    for layer in layered.layers:
        source = layer.source
        if isinstance(source, EgressProxy) and source.metadata.name != layers.BASE and source.spec.networks:
            reason = f"spec.networks.machineNetwork of {source.place.object}"
            yield merging.MergedPart(reason, source.spec.networks.machine_network)


def _iter_own_findings(layered: LayeredSettings, merged: merging.MergedNoProxy) -> Iterator[Finding]:
    if not layered.layers:
        return
    place = layered.layers[0].source.place
    yield from _check_list_length(layered.layers[0], merged.text, "this cluster")
    if merged.unknown:
        yield _build_unknown_networks_warning(place, merged.unknown)


def _build_unknown_networks_warning(place: Place, fields: tuple[str, ...]) -> Finding:
    """Return one warning for all of them: who starts without a cluster knows none."""
    *others, last = fields
    named = f"{', '.join(others)} and {last} are" if others else f"{last} is"
    message = f"the cluster's {named} not known and left out of NO_PROXY: set spec.networks"
    if "internalAPIHost" in fields:
        message += "; apply will refuse hosts that run a kubelet until spec.networks.internalAPIHost is set"
    return place.build_warning(("spec", "networks", *(() if others else (last,))), message)


def _iter_cluster_findings(
    layered: LayeredSettings, cluster: Cluster, text: str, addresses: tuple[str, ...]
) -> Iterator[Finding]:
    if not layered.layers:
        return
    name = cluster.place.object
    yield from networks.examine_cluster_networks(cluster)
    last = next((layer for layer in reversed(layered.layers) if layer.items), layered.layers[-1])
    proxied = layered.http_proxy or layered.https_proxy or layered.direct
    if layered.items and not proxied and last.source.metadata.name != layers.BASE:
        message = f"requires a proxy for {name}: no EgressProxy that selects it sets spec.httpProxy or spec.httpsProxy"
        yield last.source.place.build_error(("spec", "noProxy"), message)
    yield from _check_list_length(last, text, name)
    if not text or text == no_proxy.ALL:
        return
    for item, entry in ((cluster.services, "services"), (cluster.pods, "pods")):
        if not item:
            message = f"the cluster's {entry} network is not known and is left out of NO_PROXY"
            yield cluster.place.build_warning(("spec", "clusterNetwork", entry, "cidrBlocks"), message)
    if not cluster.endpoint_host:
        path = ("spec", "controlPlaneEndpoint", "host")
        yield cluster.place.build_warning(path, "the API server's host is not known yet and is left out of NO_PROXY")
    if outside := no_proxy.list_uncovered(text, addresses):
        yield cluster.place.build_warning(
            ("spec", "infrastructureRef"), f"of its Machines {no_proxy.describe_uncovered(outside)}"
        )


def _iter_harm_findings(layered: LayeredSettings, egress: Egress, *, has_pods: bool) -> Iterator[Finding]:
    """Items of the merged list on which a client fails that gets it, or with which it sends everything past the proxy.

    What pods get and what whole machines have is read by any client; services of nodes fail on nothing that is valid. What a
    user wrote is checked in place, except for networks.
    """
    lists = {egress.pods_list.text: "pods"} if has_pods else {}
    if egress.windows.environment_scope != "Services" or egress.linux.environment_scope == "Both":
        lists.setdefault(egress.no_proxy, "machines")
    if not layered.layers or not lists:
        return
    users = {item for layer in layered.layers for item in layer.items if not no_proxy.is_ipv6_network(item)}
    users = users if layered.merged is None else set[str]()
    reported: set[str] = set()
    for text, readers in lists.items():
        if all(no_proxy.is_harmless(item) for item in no_proxy.split(text)):
            continue
        from transom.proxy.clients.harms import find_harms

        for harm in find_harms(text):
            if harm.item not in users and harm.item not in reported:
                reported.add(harm.item)
                clients = ", ".join(harm.clients)
                message = f"`{harm.item}`, which {readers} get in the merged list, {harm.message} ({clients})"
                yield layered.layers[0].source.place.build_warning(("spec", "noProxy"), message)


def _check_plain_proxies(layered: LayeredSettings, egress: Egress, objects: SettingsObjects) -> Iterator[Finding]:
    """Warn of clients without TLS or credentials for the proxies: the first boot of machines, WinHTTP, Windows PowerShell."""
    from transom.common.installers import OPENSSH_URL
    from transom.proxy.plain_proxy import NO_TLS, find_plain_proxy_fault, iter_unreachable_urls, select_plain_proxy

    if not layered.layers:
        return
    place = layered.layers[0].source.place
    platform = objects.infrastructure.platform if objects.infrastructure is not None else None
    if platform is not None and platform.type in _MACHINE_PLATFORMS:
        proxy = select_plain_proxy(egress.http_proxy, egress.https_proxy)
        if list(iter_unreachable_urls(proxy, egress.no_proxy, (OPENSSH_URL,))):
            field, why = proxy.problems[0]
            message = (
                f"{why}: new Windows machines cannot download their OpenSSH server with it. Use an image with an OpenSSH server"
                " (Windows Server 2025 has one), or --openssh-msi with a URL whose host noProxy contains"
            )
            yield place.build_warning(("spec", field), message)
    if egress.windows.win_http and egress.https_proxy and find_plain_proxy_fault(egress.https_proxy) == NO_TLS:
        # `httpProxy` is always an http URL
        message = "WinHTTP does not support a proxy by TLS: it gets no proxy for https URLs, whatever spec.windows.winHTTP is"
        yield place.build_warning(("spec", "httpsProxy"), message)
    if egress.windows.power_shell:
        yield from _check_power_shell(place, egress)


def _check_power_shell(place: Place, egress: Egress) -> Iterator[Finding]:
    """Warn of what the profile of Windows PowerShell cannot have of the settings."""
    from transom.proxy.clients.bypass_expressions import build_bypass_expressions
    from transom.proxy.plain_proxy import NO_CREDENTIALS, NO_TLS, NOT_ASCII, OTHER_PROXY, select_web_proxy

    messages = {
        NO_CREDENTIALS: "requires a password, and every local user can read the profile: Windows PowerShell gets the proxy"
        " without it. The proxy answers 407 unless it lets the nodes in without one, or the script gives `-ProxyCredential`",
        NO_TLS: "is connected to by TLS, which .NET Framework does not support: Windows PowerShell does not get this proxy",
        NOT_ASCII: "has a name that is not ASCII: Windows PowerShell does not get this proxy",
        OTHER_PROXY: "is another proxy than spec.httpsProxy: Windows PowerShell has one proxy for all URLs, and uses that of"
        " spec.httpsProxy for http URLs too",
    }
    for field, problem in select_web_proxy(egress.http_proxy, egress.https_proxy).problems:
        yield place.build_warning(("spec", field), f"{messages[problem]} (spec.windows.powerShell)")
    for loss in build_bypass_expressions(egress.no_proxy).lost:
        message = (
            f"Windows PowerShell does not exempt `{loss.item}` of the merged list: {loss.reason} (spec.windows.powerShell)"
        )
        yield place.build_warning(("spec", "noProxy"), message)


def _check_incomplete_proxy(layer: Layer) -> Iterator[Finding]:
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
            yield layer.source.place.build_warning(("spec", field), message)


def _check_list_length(layer: Layer, text: str, cluster_label: str) -> Iterator[Finding]:
    place = layer.source.place
    if len(text) > no_proxy.MAX_LENGTH:
        message = f"the merged list of {cluster_label} has {len(text):,} characters: at most {no_proxy.MAX_LENGTH:,} are taken"
        yield place.build_error(("spec", "noProxy"), message)
    elif len(text) > no_proxy.WARN_LENGTH:
        yield place.build_warning(
            ("spec", "noProxy"), f"the merged list of {cluster_label} has {len(text):,} characters: use CIDRs and domains"
        )


class _EgressBuilder:
    """Makes an Egress of what the layers say; a trust bundle that many clusters share is parsed once."""

    def __init__(self, objects: SettingsObjects, broken: set[str]) -> None:
        self._objects = objects
        self._broken = broken
        self._bundles: dict[tuple[str, str], tuple[Certificate, ...]] = {}
        self._base = layers.find_base_settings(objects)

    def is_error_free(self, layered: LayeredSettings) -> bool:
        """Return True if no object of the settings has an error; an unread file could be any of them."""
        parts = {layer.source.place.object for layer in layered.layers}
        if self._base:
            parts.add(self._base.place.object)
        if layered.credentials and (secret := self._objects.find_secret(*layered.credentials)):
            parts.add(secret.place.object)
        if layered.trusted_ca and (config_map := self._objects.find_config_map(*layered.trusted_ca)):
            parts.add(config_map.place.object)
        return not parts & self._broken and "" not in self._broken

    def build_egress(self, layered: LayeredSettings, text: str, api_server_known: bool) -> Egress | None:
        """Build the settings, or return None if they are not sound."""
        if not self.is_error_free(layered):
            return None
        spec = self._base.spec if self._base else None
        http, https = (self._join_credentials(item, layered.credentials) for item in (layered.http_proxy, layered.https_proxy))
        default = WITH_CREDENTIALS if withholding.has_credentials(http, https) else ALL_CONSUMERS
        endpoints = layered.layers[0].source.spec.readiness_endpoints if layered.layers else None
        return Egress(
            http,
            https,
            text,
            self._load_certificates(layered.trusted_ca),
            (spec.windows if spec else None) or WindowsSettings(),
            tuple(
                endpoint.reveal() for endpoint in endpoints or () if validation.find_endpoint_fault(endpoint.reveal()) is None
            ),
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
            own_drop_in=spec is not None and spec.values is not None and spec.values.drop_in_name == "Own",
        )

    def _join_credentials(self, proxy: Secret | None, credentials: tuple[str, str] | None) -> Secret | None:
        if proxy is None or credentials is None:
            return proxy
        secret = self._objects.find_secret(*credentials)
        username, password = (secret.data.get(key) if secret else None for key in ("username", "password"))
        return Secret(
            url.with_userinfo(proxy.reveal(), username.reveal() if username else "", password.reveal() if password else "")
        )

    def _load_certificates(self, reference: tuple[str, str] | None) -> tuple[Certificate, ...]:
        if reference is None:
            return ()
        if reference not in self._bundles:
            config_map = self._objects.find_config_map(*reference)
            text = config_map.data.get(validation.BUNDLE_KEY, "") if config_map else ""
            self._bundles[reference] = parse_bundle(text).certificates
        return self._bundles[reference]
