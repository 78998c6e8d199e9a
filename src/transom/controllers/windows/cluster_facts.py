"""What a joining host has to know of its cluster: where the API server is, whom to trust, networks, versions."""

import asyncio
import base64
import ipaddress
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import yaml

from transom.controllers.kept import HostNode
from transom.controllers.settings import CurrentSettings
from transom.controllers.watched import Watched
from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.objects import Whole
from transom.kube.resources import CONFIG_MAPS, OPENSHIFT_INFRASTRUCTURES, OPENSHIFT_NETWORKS, SECRETS, Resource
from transom.proxy.secret import Secret
from transom.windows.mirror_sets import Mirrors, mirrors

OPERATOR_NETWORKS: Final = Resource("operator.openshift.io", "v1", "Network", "networks", False, Whole)
MIRROR_SETS: Final = tuple(
    Resource("config.openshift.io", "v1", kind, f"{kind.lower()}s", False, Whole)
    for kind in ("ImageDigestMirrorSet", "ImageTagMirrorSet")
)
_PULL_SECRET: Final = "pull-secret"  # noqa: S105  # a name
_OPENSHIFT_CONFIG: Final = "openshift-config"
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

    def __init__(self, watched: Watched, settings: CurrentSettings) -> None:
        self._watched = watched
        self._settings = settings
        self._info = watched.watch(CONFIG_MAPS, "kube-public", "metadata.name=cluster-info")
        self._authentication = watched.watch(CONFIG_MAPS, "kube-system", f"metadata.name={_CLIENT_CA}")
        self._networks = watched.watch(OPENSHIFT_NETWORKS)
        self._infrastructures = watched.watch(OPENSHIFT_INFRASTRUCTURES)
        self._operator_networks = watched.watch(OPERATOR_NETWORKS)
        self._mirror_sets = [watched.watch(kind) for kind in MIRROR_SETS]
        self._version: tuple[float, str] | None = None
        self._asking = asyncio.Lock()

    def subscribe(self, changed: Any) -> None:
        """Call `changed` when what a host has to know may be different."""
        for store in (self._info, self._authentication, self._operator_networks, *self._mirror_sets):
            store.subscribe(lambda *_: changed())
        self._watched.config_maps.subscribe(lambda name, *_: changed() if name[1] == VARIABLES else None)

    async def server_version(self, client: Client) -> str:
        """`gitVersion` of the API server, asked anew every ten minutes. Raises ApiError."""
        async with self._asking:
            if self._version is None or time.monotonic() - self._version[0] > _VERSION_SECONDS:
                answer = await client.get_json("/version")
                self._version = (time.monotonic(), str(answer.get("gitVersion", "")))
            return self._version[1]

    async def mirrors(self, client: Client) -> Mirrors:
        """The registry mirrors that OpenShift's objects ask for, with the logins of its pull secret. Raises ApiError."""
        sets = [held.value for store in self._mirror_sets for held in store.snapshot()]
        if not sets:
            return Mirrors()
        try:
            held = (await client.get(SECRETS, _PULL_SECRET, _OPENSHIFT_CONFIG)).value
        except NotFound:
            return mirrors(sets)
        encoded = _at(held, "data", ".dockerconfigjson")
        return mirrors(sets, Secret(base64.b64decode(encoded).decode()) if isinstance(encoded, str) else None)

    def linux_versions(self) -> set[str]:
        """The versions of the kubelets of the Linux nodes."""
        return {node.kubelet_version for node in self._watched.nodes.snapshot() if _is_linux(node)}

    def cluster(self) -> dict[str, Any] | None:
        """The `cluster` of a kubeconfig for hosts; None where nothing says how they reach the API server.

        As kubeadm publishes it (`kube-public/cluster-info`), else OpenShift's internal URL with the CAs of `kube-root-ca.crt`.
        """
        info = self._info.snapshot().get("cluster-info", "kube-public")
        if info is not None and (found := _published(info)) is not None:
            return found
        infrastructure = self._infrastructures.snapshot().get("cluster")
        server = _at(infrastructure.value, "status", "apiServerInternalURI") if infrastructure is not None else None
        roots = self._watched.config_maps.snapshot().get(_ROOT_CA, self._watched.namespace)
        authority = _at(roots.value, "data", "ca.crt") if roots is not None else None
        if not isinstance(server, str) or not isinstance(authority, str):
            return None
        return {"server": server, "certificate-authority-data": base64.b64encode(authority.encode()).decode()}

    def client_ca(self) -> Secret | None:
        """The CAs of those that may ask kubelets: the API server's own. None where they are not published."""
        held = self._authentication.snapshot().get(_CLIENT_CA, "kube-system")
        text = _at(held.value, "data", "client-ca-file") if held is not None else None
        return Secret(text) if isinstance(text, str) and text else None

    @property
    def network(self) -> str:
        """The cluster's network as OpenShift names it; empty elsewhere."""
        held = self._networks.snapshot().get("cluster")
        if held is None:
            return ""
        found = _at(held.value, "status", "networkType") or _at(held.value, "spec", "networkType")
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
        held = self._operator_networks.snapshot().get("cluster")
        hybrid = (
            _at(held.value, "spec", "defaultNetwork", "ovnKubernetesConfig", "hybridOverlayConfig")
            if held is not None
            else None
        )
        if network == "OVNKubernetes" and not isinstance(hybrid, Mapping):
            return (
                "OVN-Kubernetes has no hybrid overlay: set spec.defaultNetwork.ovnKubernetesConfig.hybridOverlayConfig of "
                "networks.operator.openshift.io/cluster"
            )
        return None

    def variables(self) -> dict[str, str]:
        """The facts that a payload may name; what stands in the ConfigMap `windows-worker` is more of them, and wins."""
        external = self.platform.lower() in _EXTERNAL_CLOUDS
        found = {
            "NODE_LABELS": _LABELS,
            "CLOUD_PROVIDER_ARGUMENT": "--cloud-provider=external" if external else "",
            "PAUSE_IMAGE": _PAUSE_IMAGE,
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
        own = self._watched.config_maps.snapshot().get(VARIABLES, self._watched.namespace)
        written = _at(own.value, "data") if own is not None else None
        return found | {str(name): str(text) for name, text in (written or {}).items()}

    def kubeconfig(self, token: Secret) -> Secret:
        """The bootstrap kubeconfig of a host. Raises ValueError where the API server is not known."""
        cluster = self.cluster()
        if cluster is None:
            raise ValueError("nothing says how hosts reach the API server")
        value = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "bootstrap", "user": {"token": token.reveal()}}],
            "contexts": [{"name": "bootstrap", "context": {"cluster": "cluster", "user": "bootstrap"}}],
            "current-context": "bootstrap",
        }
        # JSON is YAML, and has no anchors
        return Secret(msgspec.json.encode(value).decode())


def _published(info: Whole) -> dict[str, Any] | None:
    """The cluster of the kubeconfig in `cluster-info` (kubeadm's Token Discovery)."""
    text = _at(info.value, "data", "kubeconfig")
    try:
        read = yaml.load(text, Loader=yaml.CSafeLoader) if isinstance(text, str) else None
    except yaml.YAMLError:
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
