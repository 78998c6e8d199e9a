"""Facts about its cluster that a joining host needs: the API server's address, its CA, networks, versions."""

import asyncio
import base64
import ipaddress
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from transom.common.mappings import get_nested_value
from transom.controllers.join.cluster_registries import ClusterRegistries
from transom.controllers.runtime.cached_objects import HostNode
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.informers import Informers
from transom.kube.client import Client
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, OPENSHIFT_INFRASTRUCTURES, OPENSHIFT_NETWORKS, Resource
from transom.proxy.secret import Secret
from transom.sources.yaml_text import InvalidText, parse_value
from transom.windows.nodes.support import DEFAULT_PORT
from transom.windows.payload.payload import (
    API_SERVER_CA,
    EXPORTER_CERTIFICATE,
    EXPORTER_KEY,
    KUBELET_CA,
    NODE_MANAGER_KUBECONFIG,
)

OPERATOR_NETWORKS: Final = Resource("operator.openshift.io", "v1", "Network", "networks", False, UnstructuredObject)
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

    def subscribe(self, on_change: Any) -> None:
        """Call `on_change` when what a host has to know may be different."""
        for store in (self._info, self._authentication, self._operator_networks):
            store.subscribe(lambda *_: on_change())
        self.registries.subscribe(on_change)
        self._informers.config_maps.subscribe(lambda name, *_: on_change() if name.name in (VARIABLES, _ROOT_CA) else None)
        self._informers.secrets.subscribe(lambda name, *_: on_change() if name.name in (EXPORTER, NODE_MANAGER) else None)

    async def read_server_version(self, client: Client) -> str:
        """`gitVersion` of the API server, read again every ten minutes. Raises ApiError."""
        async with self._asking:
            if self._version is None or time.monotonic() - self._version[0] > _VERSION_SECONDS:
                answer = await client.get_json("/version")
                self._version = (time.monotonic(), str(answer.get("gitVersion", "")))
            return self._version[1]

    @property
    def known_version(self) -> str:
        """What `server_version` last said; empty before it was asked."""
        return self._version[1] if self._version is not None else ""

    def list_linux_versions(self) -> set[str]:
        """Return the versions of the Linux nodes' kubelets."""
        return {node.kubelet_version for node in self._informers.nodes.take_snapshot() if _is_linux(node)}

    def find_kubeconfig_cluster(self) -> dict[str, Any] | None:
        """Return the `cluster` of a kubeconfig for hosts; None if no object says how they reach the API server.

        It is kubeadm's (`kube-public/cluster-info`), else OpenShift's internal URL with the CAs of `kube-root-ca.crt`.
        """
        info = self._info.take_snapshot().find_named("cluster-info", "kube-public")
        if info is not None and (published := _parse_cluster_info(info)) is not None:
            return published
        infrastructure = self._infrastructures.take_snapshot().find_named("cluster")
        server = (
            get_nested_value(infrastructure.value, "status", "apiServerInternalURI") if infrastructure is not None else None
        )
        roots = self._informers.config_maps.take_snapshot().find_named(_ROOT_CA, self._informers.namespace)
        authority = get_nested_value(roots.value, "data", "ca.crt") if roots is not None else None
        if not isinstance(server, str) or not isinstance(authority, str):
            return None
        return {"server": server, "certificate-authority-data": base64.b64encode(authority.encode()).decode()}

    @property
    def ca_source(self) -> str:
        """Where `cluster` has its CAs from, for people."""
        info = self._info.take_snapshot().find_named("cluster-info", "kube-public")
        if info is not None and _parse_cluster_info(info) is not None:
            return "ConfigMap kube-public/cluster-info"
        return f"ConfigMap {self._informers.namespace}/{_ROOT_CA}"

    def read_client_ca(self) -> Secret | None:
        """Return the CAs of clients that may call kubelets, those of the API server. None if they are not published."""
        cached = self._authentication.take_snapshot().find_named(_CLIENT_CA, "kube-system")
        text = get_nested_value(cached.value, "data", "client-ca-file") if cached is not None else None
        return Secret(text) if isinstance(text, str) and text else None

    def read_server_ca(self) -> Secret | None:
        """Return the CAs that sign the API server's certificate. None if no object has them."""
        encoded = (self.find_kubeconfig_cluster() or {}).get("certificate-authority-data")
        try:
            return Secret(base64.b64decode(encoded, validate=True).decode()) if isinstance(encoded, str) and encoded else None
        except ValueError:
            return None

    def list_provided_files(self) -> dict[str, Secret | None]:
        """Return the files that the cluster provides, by the payload's name for them, without unknown ones."""
        files = {KUBELET_CA: self.read_client_ca(), API_SERVER_CA: self.read_server_ca()}
        files |= {
            EXPORTER_CERTIFICATE: self._read_own_secret(EXPORTER, "tls.crt"),
            EXPORTER_KEY: self._read_own_secret(EXPORTER, "tls.key"),
        }
        token = self._read_own_secret(NODE_MANAGER, "token")
        if token is not None and self.find_kubeconfig_cluster() is not None:
            files[NODE_MANAGER_KUBECONFIG] = self.build_kubeconfig(token, "cloud-node-manager")
        return {name: content for name, content in files.items() if content is not None}

    def _read_own_secret(self, name: str, key: str) -> Secret | None:
        """Return a value of a Secret in Transom's namespace."""
        cached = self._informers.secrets.take_snapshot().find_named(name, self._informers.namespace)
        encoded = get_nested_value(cached.value, "data", key) if cached is not None else None
        try:
            return Secret(base64.b64decode(encoded, validate=True).decode()) if isinstance(encoded, str) and encoded else None
        except ValueError:
            return None

    @property
    def network(self) -> str:
        """The cluster's network as OpenShift names it; empty elsewhere."""
        cached = self._networks.take_snapshot().find_named("cluster")
        if cached is None:
            return ""
        network_type = get_nested_value(cached.value, "status", "networkType") or get_nested_value(
            cached.value, "spec", "networkType"
        )
        return network_type if isinstance(network_type, str) else ""

    @property
    def platform(self) -> str:
        """The platform of the cluster, from OpenShift's Infrastructure or the settings; empty if unknown."""
        newest = self._settings.newest
        return newest.networks.platform.type if newest is not None and newest.networks.platform is not None else ""

    def explain_network_refusal(self, works_with: tuple[str, ...]) -> str | None:
        """Why no Windows node can have this cluster's network; None where it can."""
        network = self.network
        if not network:
            return None
        if works_with and network not in works_with:
            return f"the cluster's network is {network}; the payload works with {', '.join(works_with)}"
        if network == "OVNKubernetes" and not get_nested_value(self._hybrid_overlay, "hybridClusterNetwork"):
            return (
                "OVN-Kubernetes has no hybrid overlay: set spec.defaultNetwork.ovnKubernetesConfig.hybridOverlayConfig."
                "hybridClusterNetwork of networks.operator.openshift.io/cluster"
            )
        return None

    @property
    def _hybrid_overlay(self) -> Any:
        cached = self._operator_networks.take_snapshot().find_named("cluster")
        path = ("spec", "defaultNetwork", "ovnKubernetesConfig", "hybridOverlayConfig")
        return get_nested_value(cached.value, *path) if cached is not None else None

    @property
    def vxlan_port(self) -> str:
        """The overlay's port; ovn-kubernetes' default if none is configured (go-controller/pkg/config/config.go)."""
        return str(get_nested_value(self._hybrid_overlay, "hybridOverlayVXLANPort") or DEFAULT_PORT)

    @property
    def _external_cloud(self) -> bool:
        """Whether a cloud controller manager initialises the nodes: the kubelet leaves the provider's taint for it then."""
        if self.platform.lower() != "external":
            return self.platform.lower() in _EXTERNAL_CLOUDS
        cached = self._infrastructures.take_snapshot().find_named("cluster")
        path = ("status", "platformStatus", "external", "cloudControllerManager", "state")
        return cached is not None and get_nested_value(cached.value, *path) == "External"

    def build_variables(self) -> dict[str, str]:
        """Return the facts that a payload may name. Entries of the ConfigMap `windows-worker` are added and take precedence."""
        values = {
            "NODE_LABELS": _LABELS,
            "CLOUD_PROVIDER_ARGUMENT": "--cloud-provider=external" if self._external_cloud else "",
            "PAUSE_IMAGE": _PAUSE_IMAGE,
            "VXLAN_PORT": self.vxlan_port,
        }
        if (cluster := self.find_kubeconfig_cluster()) is not None:
            values["API_SERVER"] = str(cluster.get("server", ""))
        newest = self._settings.newest
        if newest is not None:
            networks = newest.networks
            values["CLUSTER_DOMAIN"] = networks.dns_domain or "cluster.local"
            if networks.service_network:
                values["SERVICE_CIDR"] = networks.service_network[0]
                if (dns := _compute_dns_address(networks.service_network[0])) is not None:
                    values["CLUSTER_DNS"] = dns
            if networks.pod_network:
                values["CLUSTER_CIDR"] = networks.pod_network[0]
        own = self._informers.config_maps.take_snapshot().find_named(VARIABLES, self._informers.namespace)
        written = get_nested_value(own.value, "data") if own is not None else None
        return values | {str(name): str(text) for name, text in (written or {}).items()}

    def build_kubeconfig(self, token: Secret, user: str = "bootstrap") -> Secret:
        """Return a kubeconfig with a token. Raises ValueError if the API server's address is unknown."""
        cluster = self.find_kubeconfig_cluster()
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


def _parse_cluster_info(info: UnstructuredObject) -> dict[str, Any] | None:
    """Return the cluster of the kubeconfig in `cluster-info` (kubeadm's Token Discovery)."""
    text = get_nested_value(info.value, "data", "kubeconfig")
    try:
        read = parse_value(text) if isinstance(text, str) else None
    except InvalidText:
        return None
    clusters = get_nested_value(read, "clusters")
    first = get_nested_value(clusters[0], "cluster") if isinstance(clusters, list) and clusters else None
    return dict(first) if isinstance(first, Mapping) and isinstance(first.get("server"), str) else None


def _compute_dns_address(cidr: str) -> str | None:
    try:
        return str(ipaddress.ip_network(cidr, strict=False)[_DNS_ADDRESS])
    except (ValueError, IndexError):
        return None


def _is_linux(node: HostNode) -> bool:
    return bool(node.kubelet_version) and not node.windows
