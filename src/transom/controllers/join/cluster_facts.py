"""What a joining host has to know of its cluster: where the API server is, whom to trust, networks, versions."""

import asyncio
import base64
import ipaddress
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from transom.controllers.join.cluster_registries import ClusterRegistries
from transom.controllers.runtime.cached import HostNode
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.settings import CurrentSettings
from transom.kube.client import Client
from transom.kube.objects import Whole
from transom.kube.resources import CONFIG_MAPS, OPENSHIFT_INFRASTRUCTURES, OPENSHIFT_NETWORKS, Resource
from transom.proxy.secret import Secret
from transom.sources.yaml_text import InvalidText, read_value
from transom.windows.nodes.support import DEFAULT_PORT
from transom.windows.payload import (
    API_SERVER_CA,
    EXPORTER_CERTIFICATE,
    EXPORTER_KEY,
    KUBELET_CA,
    NODE_MANAGER_KUBECONFIG,
)

OPERATOR_NETWORKS: Final = Resource("operator.openshift.io", "v1", "Network", "networks", False, Whole)
EXPORTER: Final = "windows-exporter-tls"
"""The Secret with the certificate of the exporters of metrics: OpenShift's service CA makes it for their Service."""
NODE_MANAGER: Final = "transom-cloud-node-manager"
"""The ServiceAccount of the cloud provider's node managers, and the Secret with its token."""
_CLIENT_CA: Final = "extension-apiserver-authentication"
_ROOT_CA: Final = "kube-root-ca.crt"
VARIABLES: Final = "windows-worker"
_LABELS: Final = "node.openshift.io/os_id=Windows"
_PAUSE_IMAGE: Final = "mcr.microsoft.com/oss/kubernetes/pause:3.10"
_EXTERNAL_CLOUDS: Final = frozenset(("aws", "azure", "gcp", "ibmcloud", "nutanix", "openstack", "vsphere"))
"""Platforms whose nodes are initialised by a cloud controller manager of their own."""
_DNS_ADDRESS: Final = 10
"""The cluster's name service has the tenth address of the service network, in kubeadm as in OpenShift."""
_VERSION_SECONDS: Final = 600.0


class ClusterFacts:
    """Reads the stores when it is asked."""

    def __init__(self, informers: Informers, settings: CurrentSettings) -> None:
        self._informers = informers
        self._settings = settings
        self._info = informers.watch(CONFIG_MAPS, "kube-public", "metadata.name=cluster-info")
        self._authentication = informers.watch(CONFIG_MAPS, "kube-system", f"metadata.name={_CLIENT_CA}")
        self._networks = informers.watch(OPENSHIFT_NETWORKS)
        self._infrastructures = informers.watch(OPENSHIFT_INFRASTRUCTURES)
        self._operator_networks = informers.watch(OPERATOR_NETWORKS)
        self.registries = ClusterRegistries(informers)
        self._version: tuple[float, str] | None = None
        self._asking = asyncio.Lock()

    def subscribe(self, changed: Any) -> None:
        """Call `changed` when what a host has to know may be different."""
        for store in (self._info, self._authentication, self._operator_networks):
            store.subscribe(lambda *_: changed())
        self.registries.subscribe(changed)
        self._informers.config_maps.subscribe(lambda name, *_: changed() if name.name in (VARIABLES, _ROOT_CA) else None)
        self._informers.secrets.subscribe(lambda name, *_: changed() if name.name in (EXPORTER, NODE_MANAGER) else None)

    async def server_version(self, client: Client) -> str:
        """`gitVersion` of the API server, asked anew every ten minutes. Raises ApiError."""
        async with self._asking:
            if self._version is None or time.monotonic() - self._version[0] > _VERSION_SECONDS:
                answer = await client.get_json("/version")
                self._version = (time.monotonic(), str(answer.get("gitVersion", "")))
            return self._version[1]

    @property
    def known_version(self) -> str:
        """What `server_version` last said; empty before it was asked."""
        return self._version[1] if self._version is not None else ""

    def linux_versions(self) -> set[str]:
        """The versions of the kubelets of the Linux nodes."""
        return {node.kubelet_version for node in self._informers.nodes.snapshot() if _is_linux(node)}

    def cluster(self) -> dict[str, Any] | None:
        """The `cluster` of a kubeconfig for hosts; None where nothing says how they reach the API server.

        As kubeadm publishes it (`kube-public/cluster-info`), else OpenShift's internal URL with the CAs of `kube-root-ca.crt`.
        """
        info = self._info.snapshot().named("cluster-info", "kube-public")
        if info is not None and (found := _published(info)) is not None:
            return found
        infrastructure = self._infrastructures.snapshot().named("cluster")
        server = _at(infrastructure.value, "status", "apiServerInternalURI") if infrastructure is not None else None
        roots = self._informers.config_maps.snapshot().named(_ROOT_CA, self._informers.namespace)
        authority = _at(roots.value, "data", "ca.crt") if roots is not None else None
        if not isinstance(server, str) or not isinstance(authority, str):
            return None
        return {"server": server, "certificate-authority-data": base64.b64encode(authority.encode()).decode()}

    @property
    def published_in(self) -> str:
        """Where `cluster` has its CAs from, for people."""
        info = self._info.snapshot().named("cluster-info", "kube-public")
        if info is not None and _published(info) is not None:
            return "ConfigMap kube-public/cluster-info"
        return f"ConfigMap {self._informers.namespace}/{_ROOT_CA}"

    def client_ca(self) -> Secret | None:
        """The CAs of those that may ask kubelets: the API server's own. None where they are not published."""
        cached = self._authentication.snapshot().named(_CLIENT_CA, "kube-system")
        text = _at(cached.value, "data", "client-ca-file") if cached is not None else None
        return Secret(text) if isinstance(text, str) and text else None

    def server_ca(self) -> Secret | None:
        """The CAs by which the API server is known. None where nothing says them."""
        encoded = (self.cluster() or {}).get("certificate-authority-data")
        try:
            return Secret(base64.b64decode(encoded, validate=True).decode()) if isinstance(encoded, str) and encoded else None
        except ValueError:
            return None

    def provided(self) -> dict[str, Secret | None]:
        """The files that the cluster provides, by the payload's name for them; what is not known is not there."""
        found = {KUBELET_CA: self.client_ca(), API_SERVER_CA: self.server_ca()}
        found |= {EXPORTER_CERTIFICATE: self._own(EXPORTER, "tls.crt"), EXPORTER_KEY: self._own(EXPORTER, "tls.key")}
        token = self._own(NODE_MANAGER, "token")
        if token is not None and self.cluster() is not None:
            found[NODE_MANAGER_KUBECONFIG] = self.kubeconfig(token, "cloud-node-manager")
        return {name: content for name, content in found.items() if content is not None}

    def _own(self, name: str, key: str) -> Secret | None:
        """A text of a Secret in Transom's namespace."""
        cached = self._informers.secrets.snapshot().named(name, self._informers.namespace)
        encoded = _at(cached.value, "data", key) if cached is not None else None
        try:
            return Secret(base64.b64decode(encoded, validate=True).decode()) if isinstance(encoded, str) and encoded else None
        except ValueError:
            return None

    @property
    def network(self) -> str:
        """The cluster's network as OpenShift names it; empty elsewhere."""
        cached = self._networks.snapshot().named("cluster")
        if cached is None:
            return ""
        found = _at(cached.value, "status", "networkType") or _at(cached.value, "spec", "networkType")
        return found if isinstance(found, str) else ""

    @property
    def platform(self) -> str:
        """Where the cluster runs, as OpenShift's Infrastructure says or the settings do; empty where nothing says it."""
        newest = self._settings.newest
        return newest.networks.platform.type if newest is not None and newest.networks.platform is not None else ""

    def network_refusal(self, works_with: tuple[str, ...]) -> str | None:
        """Why no Windows node can have this cluster's network; None where it can."""
        network = self.network
        if not network:
            return None
        if works_with and network not in works_with:
            return f"the cluster's network is {network}; the payload works with {', '.join(works_with)}"
        if network == "OVNKubernetes" and not _at(self._hybrid_overlay, "hybridClusterNetwork"):
            return (
                "OVN-Kubernetes has no hybrid overlay: set spec.defaultNetwork.ovnKubernetesConfig.hybridOverlayConfig."
                "hybridClusterNetwork of networks.operator.openshift.io/cluster"
            )
        return None

    @property
    def _hybrid_overlay(self) -> Any:
        cached = self._operator_networks.snapshot().named("cluster")
        path = ("spec", "defaultNetwork", "ovnKubernetesConfig", "hybridOverlayConfig")
        return _at(cached.value, *path) if cached is not None else None

    @property
    def vxlan_port(self) -> str:
        """Of the overlay; ovn-kubernetes' own where nobody says another one (go-controller/pkg/config/config.go)."""
        return str(_at(self._hybrid_overlay, "hybridOverlayVXLANPort") or DEFAULT_PORT)

    @property
    def _external_cloud(self) -> bool:
        """Whether a cloud controller manager initialises the nodes: the kubelet leaves the provider's taint for it then."""
        if self.platform.lower() != "external":
            return self.platform.lower() in _EXTERNAL_CLOUDS
        cached = self._infrastructures.snapshot().named("cluster")
        path = ("status", "platformStatus", "external", "cloudControllerManager", "state")
        return cached is not None and _at(cached.value, *path) == "External"

    def variables(self) -> dict[str, str]:
        """The facts that a payload may name; what stands in the ConfigMap `windows-worker` is more of them, and wins."""
        found = {
            "NODE_LABELS": _LABELS,
            "CLOUD_PROVIDER_ARGUMENT": "--cloud-provider=external" if self._external_cloud else "",
            "PAUSE_IMAGE": _PAUSE_IMAGE,
            "VXLAN_PORT": self.vxlan_port,
        }
        if (cluster := self.cluster()) is not None:
            found["API_SERVER"] = str(cluster.get("server", ""))
        newest = self._settings.newest
        if newest is not None:
            networks = newest.networks
            found["CLUSTER_DOMAIN"] = networks.dns_domain or "cluster.local"
            if networks.service_network:
                found["SERVICE_CIDR"] = networks.service_network[0]
                if (dns := _dns(networks.service_network[0])) is not None:
                    found["CLUSTER_DNS"] = dns
            if networks.pod_network:
                found["CLUSTER_CIDR"] = networks.pod_network[0]
        own = self._informers.config_maps.snapshot().named(VARIABLES, self._informers.namespace)
        written = _at(own.value, "data") if own is not None else None
        return found | {str(name): str(text) for name, text in (written or {}).items()}

    def kubeconfig(self, token: Secret, user: str = "bootstrap") -> Secret:
        """A kubeconfig with a token. Raises ValueError where the API server is not known."""
        cluster = self.cluster()
        if cluster is None:
            raise ValueError("nothing says how hosts reach the API server")
        value = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token.reveal()}}],
            "contexts": [{"name": user, "context": {"cluster": "cluster", "user": user}}],
            "current-context": user,
        }
        # JSON is YAML, and has no anchors
        return Secret(msgspec.json.encode(value).decode())


def _published(info: Whole) -> dict[str, Any] | None:
    """The cluster of the kubeconfig in `cluster-info` (kubeadm's Token Discovery)."""
    text = _at(info.value, "data", "kubeconfig")
    try:
        read = read_value(text) if isinstance(text, str) else None
    except InvalidText:
        return None
    clusters = _at(read, "clusters")
    first = _at(clusters[0], "cluster") if isinstance(clusters, list) and clusters else None
    return dict(first) if isinstance(first, Mapping) and isinstance(first.get("server"), str) else None


def _at(value: Any, *path: str) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _dns(cidr: str) -> str | None:
    try:
        return str(ipaddress.ip_network(cidr, strict=False)[_DNS_ADDRESS])
    except (ValueError, IndexError):
        return None


def _is_linux(node: HostNode) -> bool:
    return bool(node.kubelet_version) and not node.windows
