"""kube-proxy on Windows nodes, in a container or as a service, the settings of Calico's operator, and the RuntimeClass."""

import re
from collections.abc import Iterator
from typing import Any

from transom.capi.bootstrap.kubeadm import Entries, encode_file
from transom.capi.check import upstream, upstream_network
from transom.capi.check.worker_inputs import WorkerInputs
from transom.capi.worker.file_content import read_payload_script, read_script
from transom.capi.worker.windows_release import parse_minor
from transom.windows.nodes.scheduling import build_runtime_class

Object = dict[str, Any]

NAMESPACE = "kube-system"
SANDBOX = "$env:CONTAINER_SANDBOX_MOUNT_POINT"
RUN_AS = "NT AUTHORITY\\SYSTEM"
NETWORKS = {"calico": upstream.CALICO_NETWORK.value, "flannel": upstream.FLANNEL_NETWORK.value}
"""What HNS calls the pods' network."""
START = "C:/k/kube-proxy-start.ps1"
SERVICE = "C:/k/kube-proxy-service.ps1"
SOURCE_VIP = "C:/k/source-vip.ps1"
_CONFIG = "kube-proxy-windows"


def select_images(inputs: WorkerInputs) -> dict[str, str]:
    """Select the images of the daemons, by name; `daemonImages` replaces any of them.

    kube-proxy's has the version without a vendor's suffix: upstream builds images of Kubernetes' own versions only.
    """
    version = re.split(r"[-+]", inputs.kubernetes_version)[0]
    return {"kube-proxy": f"sigwindowstools/kube-proxy:{version}{upstream.KUBE_PROXY_SUFFIX.value}", **inputs.daemon_images}


def get_network_name(inputs: WorkerInputs) -> str:
    """Return the name of the pods' network in HNS."""
    return inputs.network_name or NETWORKS.get(inputs.cni, "")


def iter_daemon_set_objects(inputs: WorkerInputs) -> Iterator[Object]:
    """Iterate over the objects for the workload cluster."""
    yield build_runtime_class(inputs.windows)
    if inputs.daemons == "services":
        yield build_service_role()
        return
    if inputs.cni != "calico":
        yield build_start_script(inputs)
    yield build_kube_proxy(inputs)


def build_machine_entries(inputs: WorkerInputs) -> Entries:
    """Build the machines' entries: none for HostProcess containers; else scripts that make kube-proxy a service."""
    if inputs.daemons != "services":
        return Entries()
    arguments = f"-Network {get_network_name(inputs)} -ClusterCidr {inputs.pod_cidr or 'none'} -Dsr {_format_dsr(inputs)}"
    path = SERVICE.replace("/", "\\")
    call = f"powershell.exe -NoProfile -ExecutionPolicy Bypass -File {path} {arguments}"
    scripts = {
        START: read_script("kube-proxy-start.ps1"),
        SERVICE: read_script("kube-proxy-service.ps1"),
        SOURCE_VIP: render_source_vip(inputs),
    }
    return Entries(files=tuple(encode_file(path, content) for path, content in scripts.items()), post=(call,))


def render_source_vip(inputs: WorkerInputs) -> bytes:
    """Render the script that prints kube-proxy's own address in an overlay, which `kube-proxy-start.ps1` calls."""
    return read_payload_script(f"source-vip-{'calico' if inputs.cni == 'calico' else 'flannel'}.ps1")


def iter_network_objects(inputs: WorkerInputs) -> Iterator[Object]:
    """Yield the settings of Calico's operator for Windows nodes; nothing for other networks.

    docs.tigera.io, "Install using Operator" of Calico for Windows: VXLAN without BGP, the Services' networks, and the API
    server's direct address (ConfigMap kubernetes-services-endpoint). An existing Installation keeps its other
    fields. The pools are part of it: by default they are IP-in-IP, with which the operator rejects an Installation
    without BGP (`upstream_network`).
    """
    if inputs.cni != "calico":
        return
    network: Object = {"bgp": "Disabled", "windowsDataplane": "HNS"}
    if inputs.pod_cidr:
        network["ipPools"] = [
            {"cidr": cidr.strip(), "encapsulation": upstream_network.POOL_ENCAPSULATION.value, "natOutgoing": "Enabled"}
            for cidr in inputs.pod_cidr.split(",")
        ]
    spec = {"serviceCIDRs": inputs.service_cidr.split(","), "calicoNetwork": network}
    yield {"apiVersion": "operator.tigera.io/v1", "kind": "Installation", "metadata": {"name": "default"}, "spec": spec}
    if inputs.api_server:
        host, _, port = inputs.api_server.rpartition(":")
        metadata = {"name": "kubernetes-services-endpoint", "namespace": "tigera-operator"}
        data = {"KUBERNETES_SERVICE_HOST": host.strip("[]"), "KUBERNETES_SERVICE_PORT": port}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def build_kube_proxy(inputs: WorkerInputs) -> Object:
    """kube-proxy with the kubeconfig that kubeadm keeps for the Linux nodes.

    Calico's starts as in its image, that of another network by `build_start_script`. The Node's name is in both variables
    that scripts of such images have read (sig-windows-tools 47ab892).
    """
    environment = [
        _build_field("NODENAME", "spec.nodeName"),
        _build_field("NODE_NAME", "spec.nodeName"),
        _build_field("POD_IP", "status.podIP"),
    ]
    mounts = [{"name": "kube-proxy", "mountPath": "/var/lib/kube-proxy"}]
    volumes = [_build_config_map_volume("kube-proxy", "kube-proxy")]
    arguments = [f"{SANDBOX}/kube-proxy/start.ps1"]
    if inputs.cni != "calico":
        mounts.append({"name": "start", "mountPath": "/transom"})
        volumes.append(_build_config_map_volume("start", _CONFIG))
        cidr = inputs.pod_cidr or "none"
        # a line of PowerShell, in which a comma makes a list
        arguments = [
            f"{SANDBOX}/transom/start.ps1 -Network {get_network_name(inputs)} -ClusterCidr '{cidr}' -Dsr {_format_dsr(inputs)}"
        ]
    container = {
        "name": "kube-proxy",
        "image": select_images(inputs)["kube-proxy"],
        "args": arguments,
        "workingDir": f"{SANDBOX}/kube-proxy/",
        "env": environment,
        "volumeMounts": mounts,
    }
    return _build_daemon_set("kube-proxy-windows", "kube-proxy", containers=[container], volumes=volumes)


def build_start_script(inputs: WorkerInputs) -> Object:
    """Build the ConfigMap with the scripts that start kube-proxy for a network that no upstream image supports."""
    labels = {"tier": "node", "app": "kube-proxy"}
    metadata = {"name": _CONFIG, "namespace": NAMESPACE, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {
            "start.ps1": read_script("kube-proxy-start.ps1").decode(),
            "source-vip.ps1": render_source_vip(inputs).decode(),
        },
    }


def build_service_role() -> Object:
    """As a service kube-proxy has the kubelet's identity, which may not read all that it needs."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "transom-windows-kube-proxy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-proxier"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    }


def _build_daemon_set(name: str, account: str, *, containers: list[Object], volumes: list[Object]) -> Object:
    """Build a DaemonSet of HostProcess containers (Kubernetes: "Create a Windows HostProcess Pod")."""
    labels = {"k8s-app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {**labels}},
        "spec": {
            "selector": {"matchLabels": {**labels}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": account,
                    "priorityClassName": "system-node-critical",
                    "nodeSelector": {"kubernetes.io/os": "windows"},
                    "tolerations": [{"operator": "Exists"}],
                    "securityContext": {"windowsOptions": {"hostProcess": True, "runAsUserName": RUN_AS}},
                    "hostNetwork": True,
                    "containers": containers,
                    "volumes": volumes,
                },
            },
        },
    }


def _build_config_map_volume(name: str, config_map: str) -> Object:
    return {"name": name, "configMap": {"name": config_map}}


def _build_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _format_dsr(inputs: WorkerInputs) -> str:
    """Return `true` or `false`: whether kube-proxy uses direct server return."""
    return "true" if parse_minor(inputs.kubernetes_version) >= parse_minor(upstream.DSR.value) else "false"
