"""kube-proxy and the network of Windows nodes, three ways, and the RuntimeClass that sends pods there."""

import json
from collections.abc import Iterator
from typing import Any

from transom.capi.content import script
from transom.capi.inputs import WorkerInputs
from transom.capi.kubeadm import Entries, encoded
from transom.capi.windows_release import RELEASES

Object = dict[str, Any]

NAMESPACE = "kube-system"
CALICO_VERSION = "v3.24.5"
FLANNEL_VERSION = "v0.21.5"
"""Of the HostProcess images of sig-windows-tools."""
SANDBOX = "$env:CONTAINER_SANDBOX_MOUNT_POINT"
WINS_PIPE = "rancher_wins"
WINS_PROGRAMS = (r"C:\k\kube-proxy.exe", r"C:\k\flanneld.exe", r"C:\k\calico-node.exe")
"""What `wins` may start on the host, and nothing else."""
RUN_AS = "NT AUTHORITY\\SYSTEM"


def images(inputs: WorkerInputs) -> dict[str, str]:
    """The images of the daemons, by name; `daemonImages` replaces any of them. kube-proxy's has the cluster's version."""
    version = inputs.kubernetes_version
    flavour = inputs.cni if inputs.cni != "none" else "calico"
    made = {
        "kube-proxy": f"sigwindowstools/kube-proxy:{version}-{flavour}-hostprocess",
        "calico-install": f"sigwindowstools/calico-install:{CALICO_VERSION}-hostprocess",
        "calico-node": f"sigwindowstools/calico-node:{CALICO_VERSION}-hostprocess",
        "flannel": f"sigwindowstools/flannel:{FLANNEL_VERSION}-hostprocess",
    }
    if inputs.daemons == "wins":
        made["kube-proxy"] = f"sigwindowstools/kube-proxy:{version}-nanoserver"
    return {**made, **inputs.daemon_images}


def daemon_set_objects(inputs: WorkerInputs) -> Iterator[Object]:
    """What the workload cluster gets."""
    yield runtime_class(inputs)
    if inputs.daemons == "hostprocess":
        yield kube_proxy(inputs)
        if inputs.cni == "calico":
            yield calico_config(inputs)
            yield calico(inputs)
        elif inputs.cni == "flannel":
            yield flannel_config()
            yield flannel(inputs)
    elif inputs.daemons == "services":
        yield service_role()
    else:
        yield wins_kube_proxy(inputs)


def machine_entries(inputs: WorkerInputs) -> Entries:
    """What the machines get for it: nothing for HostProcess containers; else services, made by scripts that the image has."""
    if inputs.daemons == "services":
        names = ("kube-proxy", *([inputs.cni] if inputs.cni != "none" else []))
        return Entries(
            files=(
                encoded("C:/k/services.txt", "".join(f"{name}\r\n" for name in names).encode("ascii")),
                encoded("C:/k/services.ps1", script("services.ps1")),
            ),
            post=(r"powershell.exe -NoProfile -ExecutionPolicy Bypass -File C:\k\services.ps1",),
        )
    if inputs.daemons == "wins":
        configuration = {"listen": WINS_PIPE, "whiteList": {"processPaths": list(WINS_PROGRAMS), "proxyPorts": []}}
        return Entries(
            files=(
                encoded("C:/etc/rancher/wins/config", json.dumps(configuration, indent=1).encode("ascii"), "0600"),
                encoded("C:/k/wins.ps1", script("wins.ps1")),
            ),
            pre=(r"powershell.exe -NoProfile -ExecutionPolicy Bypass -File C:\k\wins.ps1",),
        )
    return Entries()


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
    """kube-proxy with the configuration that kubeadm keeps for the Linux nodes."""
    container = {
        "name": "kube-proxy",
        "image": images(inputs)["kube-proxy"],
        "args": [f"{SANDBOX}/kube-proxy/start.ps1"],
        "workingDir": f"{SANDBOX}/kube-proxy/",
        "env": [_field("NODE_NAME", "spec.nodeName"), _field("POD_IP", "status.podIP")],
        "volumeMounts": [{"name": "kube-proxy", "mountPath": "/var/lib/kube-proxy"}],
    }
    volumes = [_config_map_volume("kube-proxy", "kube-proxy")]
    return _daemon_set("kube-proxy-windows", "kube-proxy", containers=[container], volumes=volumes)


def calico_config(inputs: WorkerInputs) -> Object:
    """The CNI configuration that Calico's installer fills in on each node."""
    plugin = {
        "type": "calico",
        "mode": "vxlan",
        "windows_use_single_network": True,
        "nodename": "__KUBERNETES_NODE_NAME__",
        "nodename_file_optional": True,
        "log_file_path": "c:/var/log/calico/cni/cni.log",
        "log_level": "info",
        "vxlan_mac_prefix": "0E-2A",
        "vxlan_vni": 4096,
        "policy": {"type": "k8s"},
        "capabilities": {"dns": True},
        "DNS": {"Search": ["svc.cluster.local"]},
        "datastore_type": "kubernetes",
        "kubernetes": {"kubeconfig": "__KUBECONFIG_FILEPATH__"},
        "ipam": {"type": "calico-ipam", "subnet": "usePodCidr"},
        "policies": [
            {"Name": "EndpointPolicy", "Value": {"Type": "OutBoundNAT", "ExceptionList": ["__K8S_SERVICE_CIDR__"]}},
            {
                "Name": "EndpointPolicy",
                "Value": {"Type": "SDNROUTE", "DestinationPrefix": "__K8S_SERVICE_CIDR__", "NeedEncap": True},
            },
        ],
    }
    network = {"name": "Calico", "cniVersion": "0.3.1", "plugins": [plugin]}
    return _config_map(
        "calico-config-windows", "calico", {"veth_mtu": "1350", "cni_network_config": json.dumps(network, indent=1)}
    )


def calico(inputs: WorkerInputs) -> Object:
    """Calico with VXLAN: an installer of the CNI plugins, the node agent, and Felix."""
    named = images(inputs)
    kubeconfig = {"name": "KUBECONFIG", "value": "C:/etc/cni/net.d/calico-kubeconfig"}
    pod = [_field("POD_NAME", "metadata.name"), _field("POD_NAMESPACE", "metadata.namespace")]
    network = {"name": "VXLAN_VNI", "value": "4096"}
    install = {
        "name": "install-cni",
        "image": named["calico-install"],
        "args": [f"{SANDBOX}/calico/install.ps1"],
        "env": [
            {"name": "CNI_CONF_NAME", "value": "10-calico.conflist"},
            _key("CNI_NETWORK_CONFIG", "calico-config-windows", "cni_network_config"),
            _field("KUBERNETES_NODE_NAME", "spec.nodeName"),
            _key("CNI_MTU", "calico-config-windows", "veth_mtu"),
            {"name": "SLEEP", "value": "false"},
            {"name": "K8S_SERVICE_CIDR", "value": inputs.service_cidr},
        ],
        "volumeMounts": [
            {"name": "cni-bin-dir", "mountPath": "/host/opt/cni/bin"},
            {"name": "cni-net-dir", "mountPath": "/host/etc/cni/net.d"},
            {"name": "kubeadm-config", "mountPath": "/etc/kubeadm-config/"},
        ],
    }
    common = {
        "image": named["calico-node"],
        "workingDir": f"{SANDBOX}/calico/",
        "volumeMounts": [{"name": "calico-config-windows", "mountPath": "/etc/kube-calico-windows/"}],
    }
    backend = [{"name": "CNI_IPAM_TYPE", "value": "calico-ipam"}, {"name": "CALICO_NETWORKING_BACKEND", "value": "vxlan"}]
    node = {
        "name": "calico-node-startup",
        **common,
        "args": [f"{SANDBOX}/calico/node-service.ps1"],
        "env": [*pod, *backend, kubeconfig, network],
    }
    felix = {
        "name": "calico-node-felix",
        **common,
        "args": [f"{SANDBOX}/calico/felix-service.ps1"],
        "env": [*pod, network, kubeconfig],
    }
    volumes = [
        _config_map_volume("calico-config-windows", "calico-config-windows"),
        {"name": "cni-bin-dir", "hostPath": {"path": "/opt/cni/bin"}},
        {"name": "cni-net-dir", "hostPath": {"path": "/etc/cni/net.d"}},
        _config_map_volume("kubeadm-config", "kubeadm-config"),
    ]
    return _daemon_set("calico-node-windows", "calico-node", init=[install], containers=[node, felix], volumes=volumes)


def flannel_config() -> Object:
    """The CNI configuration that Flannel's start script fills in on each node."""
    policies = [
        {"Name": "EndpointPolicy", "Value": {"Type": "OutBoundNAT", "Settings": {"Exceptions": []}}},
        {"Name": "EndpointPolicy", "Value": {"Type": "SDNROUTE", "Settings": {"DestinationPrefix": "", "NeedEncap": True}}},
        {"Name": "EndpointPolicy", "Value": {"Type": "ProviderAddress", "Settings": {"ProviderAddress": ""}}},
    ]
    network = {
        "name": "flannel.4096",
        "cniVersion": "0.3.0",
        "type": "flannel",
        "capabilities": {"portMappings": True, "dns": True},
        "delegate": {"type": "sdnoverlay", "AdditionalArgs": policies},
    }
    return _config_map("kube-flannel-windows-cfg", "flannel", {"cni-conf-containerd.json": json.dumps(network, indent=1)})


def flannel(inputs: WorkerInputs) -> Object:
    """Flannel with VXLAN, beside the cluster's own `kube-flannel-cfg` in `kube-flannel`'s namespace of old, kube-system."""
    container = {
        "name": "kube-flannel",
        "image": images(inputs)["flannel"],
        "args": [f"{SANDBOX}/flannel/start.ps1"],
        "workingDir": f"{SANDBOX}/flannel/",
        "env": [_field("POD_NAME", "metadata.name"), _field("POD_NAMESPACE", "metadata.namespace")],
        "volumeMounts": [
            {"name": "flannel-cfg", "mountPath": "/mounts/kube-flannel/"},
            {"name": "flannel-windows-cfg", "mountPath": "/mounts/kube-flannel-windows/"},
            {"name": "kubeadm-config", "mountPath": "/mounts/kubeadm-config/"},
        ],
    }
    volumes = [
        _config_map_volume("flannel-cfg", "kube-flannel-cfg"),
        _config_map_volume("flannel-windows-cfg", "kube-flannel-windows-cfg"),
        _config_map_volume("kubeadm-config", "kubeadm-config"),
    ]
    return _daemon_set("kube-flannel-windows", "flannel", containers=[container], volumes=volumes)


def service_role() -> Object:
    """As a service kube-proxy has the kubelet's identity, which may not read all that it needs."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "transom-windows-kube-proxy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-proxier"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    }


def wins_kube_proxy(inputs: WorkerInputs) -> Object:
    """Deprecated: kube-proxy started on the host by wins.exe, which takes orders from a named pipe."""
    pipe = rf"\\.\pipe\{WINS_PIPE}"
    container = {
        "name": "kube-proxy",
        "image": images(inputs)["kube-proxy"],
        "command": ["wins", "cli", "process", "run", "--path", WINS_PROGRAMS[0]],
        "args": ["--args", "--config=C:/var/lib/kube-proxy/config.conf --proxy-mode=kernelspace --windows-service=false"],
        "volumeMounts": [{"name": "wins", "mountPath": pipe}],
    }
    volumes = [{"name": "wins", "hostPath": {"path": pipe}}]
    made = _daemon_set("kube-proxy-windows", "kube-proxy", containers=[container], volumes=volumes)
    spec = made["spec"]["template"]["spec"]
    # the pipe lets Administrators and SYSTEM in, and nobody else
    spec["securityContext"] = {"windowsOptions": {"runAsUserName": "ContainerAdministrator"}}
    del spec["hostNetwork"]
    return made


def _daemon_set(
    name: str, account: str, *, containers: list[Object], volumes: list[Object], init: list[Object] | None = None
) -> Object:
    """Of HostProcess containers on every Windows node (Kubernetes: "Create a Windows HostProcess Pod")."""
    labels = {"k8s-app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
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
                    **({"initContainers": init} if init else {}),
                    "containers": containers,
                    "volumes": volumes,
                },
            },
        },
    }


def _config_map(name: str, application: str, data: dict[str, str]) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"tier": "node", "app": application}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _config_map_volume(name: str, config_map: str) -> Object:
    return {"name": name, "configMap": {"name": config_map}}


def _field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _key(name: str, config_map: str, key: str) -> Object:
    return {"name": name, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}}}
