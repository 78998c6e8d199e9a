"""kube-proxy on Windows nodes, in a container or as a service, what Calico's operator is told, and the RuntimeClass."""

import re
from collections.abc import Iterator
from typing import Any

from transom.capi import upstream
from transom.capi.content import payload_script, script
from transom.capi.inputs import WorkerInputs
from transom.capi.kubeadm import Entries, encoded
from transom.capi.windows_release import RELEASES, minor

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


def images(inputs: WorkerInputs) -> dict[str, str]:
    """The images of the daemons, by name; `daemonImages` replaces any of them.

    kube-proxy's has the version without what a vendor has added to it: upstream builds images of Kubernetes' own alone.
    """
    version = re.split(r"[-+]", inputs.kubernetes_version)[0]
    return {"kube-proxy": f"sigwindowstools/kube-proxy:{version}{upstream.KUBE_PROXY_SUFFIX.value}", **inputs.daemon_images}


def network_name(inputs: WorkerInputs) -> str:
    """What HNS calls the pods' network."""
    return inputs.network_name or NETWORKS.get(inputs.cni, "")


def daemon_set_objects(inputs: WorkerInputs) -> Iterator[Object]:
    """What the workload cluster gets."""
    yield runtime_class(inputs)
    if inputs.daemons == "services":
        yield service_role()
        return
    if inputs.cni != "calico":
        yield start_script(inputs)
    yield kube_proxy(inputs)


def machine_entries(inputs: WorkerInputs) -> Entries:
    """What the machines get for it: nothing for HostProcess containers; else scripts that make kube-proxy a service."""
    if inputs.daemons != "services":
        return Entries()
    arguments = f"-Network {network_name(inputs)} -ClusterCidr {inputs.pod_cidr or 'none'} -Dsr {_dsr(inputs)}"
    path = SERVICE.replace("/", "\\")
    call = f"powershell.exe -NoProfile -ExecutionPolicy Bypass -File {path} {arguments}"
    scripts = {START: script("kube-proxy-start.ps1"), SERVICE: script("kube-proxy-service.ps1"), SOURCE_VIP: source_vip(inputs)}
    return Entries(files=tuple(encoded(path, content) for path, content in scripts.items()), post=(call,))


def source_vip(inputs: WorkerInputs) -> bytes:
    """The script that prints kube-proxy's own address in an overlay, which `kube-proxy-start.ps1` calls."""
    return payload_script(f"source-vip-{'calico' if inputs.cni == 'calico' else 'flannel'}.ps1")


def network_objects(inputs: WorkerInputs) -> Iterator[Object]:
    """What Calico's operator has to be told for Windows nodes; nothing for other networks.

    docs.tigera.io, "Install using Operator" of Calico for Windows: VXLAN without BGP, the Services' networks, and the API
    server's address beside the Services (ConfigMap kubernetes-services-endpoint). An Installation that is there keeps the rest
    of what it says.
    """
    if inputs.cni != "calico":
        return
    spec = {"serviceCIDRs": inputs.service_cidr.split(","), "calicoNetwork": {"bgp": "Disabled", "windowsDataplane": "HNS"}}
    yield {"apiVersion": "operator.tigera.io/v1", "kind": "Installation", "metadata": {"name": "default"}, "spec": spec}
    if inputs.api_server:
        host, _, port = inputs.api_server.rpartition(":")
        metadata = {"name": "kubernetes-services-endpoint", "namespace": "tigera-operator"}
        data = {"KUBERNETES_SERVICE_HOST": host.strip("[]"), "KUBERNETES_SERVICE_PORT": port}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def runtime_class(inputs: WorkerInputs) -> Object:
    """Pods that name it land on nodes of this Windows build, and tolerate their taint.

    Kubernetes: "Guide for running Windows containers", Handling multiple Windows versions in the same cluster.
    """
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": f"windows-{inputs.windows}"},
        "handler": "runhcs-wcow-process",
        "scheduling": {
            "nodeSelector": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "windows",
                "node.kubernetes.io/windows-build": RELEASES[inputs.windows].build,
            },
            "tolerations": [{"key": "os", "operator": "Equal", "value": "windows", "effect": "NoSchedule"}],
        },
    }


def kube_proxy(inputs: WorkerInputs) -> Object:
    """kube-proxy with the kubeconfig that kubeadm keeps for the Linux nodes.

    Calico's is started as the image starts it; for another network by `start_script`. The Node's name stands under both names
    that scripts of such images have read (sig-windows-tools 47ab892).
    """
    environment = [_field("NODENAME", "spec.nodeName"), _field("NODE_NAME", "spec.nodeName"), _field("POD_IP", "status.podIP")]
    mounts = [{"name": "kube-proxy", "mountPath": "/var/lib/kube-proxy"}]
    volumes = [_config_map_volume("kube-proxy", "kube-proxy")]
    arguments = [f"{SANDBOX}/kube-proxy/start.ps1"]
    if inputs.cni != "calico":
        mounts.append({"name": "start", "mountPath": "/transom"})
        volumes.append(_config_map_volume("start", _CONFIG))
        cidr = inputs.pod_cidr or "none"
        # a line of PowerShell, in which a comma makes a list
        arguments = [f"{SANDBOX}/transom/start.ps1 -Network {network_name(inputs)} -ClusterCidr '{cidr}' -Dsr {_dsr(inputs)}"]
    container = {
        "name": "kube-proxy",
        "image": images(inputs)["kube-proxy"],
        "args": arguments,
        "workingDir": f"{SANDBOX}/kube-proxy/",
        "env": environment,
        "volumeMounts": mounts,
    }
    return _daemon_set("kube-proxy-windows", "kube-proxy", containers=[container], volumes=volumes)


def start_script(inputs: WorkerInputs) -> Object:
    """The ConfigMap with the scripts that start kube-proxy for a network that no image of upstream knows."""
    labels = {"tier": "node", "app": "kube-proxy"}
    metadata = {"name": _CONFIG, "namespace": NAMESPACE, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"start.ps1": script("kube-proxy-start.ps1").decode(), "source-vip.ps1": source_vip(inputs).decode()},
    }


def service_role() -> Object:
    """As a service kube-proxy has the kubelet's identity, which may not read all that it needs."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "transom-windows-kube-proxy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-proxier"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    }


def _daemon_set(name: str, account: str, *, containers: list[Object], volumes: list[Object]) -> Object:
    """Of HostProcess containers on every Windows node (Kubernetes: "Create a Windows HostProcess Pod")."""
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


def _config_map_volume(name: str, config_map: str) -> Object:
    return {"name": name, "configMap": {"name": config_map}}


def _field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _dsr(inputs: WorkerInputs) -> str:
    """Whether kube-proxy answers past the node: `true` or `false`."""
    return "true" if minor(inputs.kubernetes_version) >= minor(upstream.DSR.value) else "false"
