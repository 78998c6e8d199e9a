"""Control planes, MachineDeployments and machines of a workload cluster, as people and Cluster API write them."""

from typing import Any

INJECT = {"transom.dev/inject": "true"}
INFRASTRUCTURE = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "LabMachineTemplate", "name": "lab"}
NPIPE = {"joinConfiguration": {"nodeRegistration": {"criSocket": "npipe:////./pipe/containerd-containerd"}}}


def template(
    name: str = "workers", spec: dict[str, Any] | None = None, cluster: str = "mycluster", **meta: Any
) -> dict[str, Any]:
    """A KubeadmConfigTemplate that asks for our entries, with a command of its own."""
    labels = {"cluster.x-k8s.io/cluster-name": cluster} | meta.pop("labels", INJECT)
    return {
        "kind": "KubeadmConfigTemplate",
        "metadata": {"name": name, "labels": labels, **meta},
        "spec": {"template": {"spec": {"preKubeadmCommands": ["echo theirs"]} if spec is None else spec}},
    }


def control_plane(
    name: str = "mycluster", spec: dict[str, Any] | None = None, replicas: int = 1, **meta: Any
) -> dict[str, Any]:
    """A KubeadmControlPlane that asks for our entries."""
    labels = {"cluster.x-k8s.io/cluster-name": name} | meta.pop("labels", INJECT)
    return {
        "kind": "KubeadmControlPlane",
        "metadata": {"name": name, "labels": labels, **meta},
        "spec": {
            "version": "v1.36.3",
            "replicas": replicas,
            "machineTemplate": {"spec": {"infrastructureRef": INFRASTRUCTURE}},
            "kubeadmConfigSpec": {"preKubeadmCommands": ["echo theirs"]} if spec is None else spec,
        },
    }


def deployment(name: str = "workers", cluster: str = "mycluster", replicas: int = 2, **meta: Any) -> dict[str, Any]:
    """A MachineDeployment of the template of the same name."""
    labels = {"pool": name}
    reference = {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfigTemplate", "name": name}
    machine = {"clusterName": cluster, "bootstrap": {"configRef": reference}, "infrastructureRef": INFRASTRUCTURE}
    return {
        "kind": "MachineDeployment",
        "metadata": {"name": name, **meta},
        "spec": {
            "clusterName": cluster,
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": machine},
        },
    }


def pool(name: str, secret: str | None, cluster: str = "mycluster", replicas: int = 2) -> tuple[dict[str, Any], dict[str, Any]]:
    """A MachinePool, and its KubeadmConfig, a file of which comes from a Secret; without one it asks for our entries."""
    file = {"path": "/x", "contentFrom": {"secret": {"name": secret, "key": "containerdProxy"}}}
    labels = {"cluster.x-k8s.io/cluster-name": cluster} | ({} if secret else INJECT)
    content = {"files": [file]} if secret else {"preKubeadmCommands": ["echo theirs"]}
    config = {"kind": "KubeadmConfig", "metadata": {"name": name, "labels": labels}, "spec": content}
    reference = {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name}
    machine = {"clusterName": cluster, "bootstrap": {"configRef": reference}, "infrastructureRef": INFRASTRUCTURE}
    spec = {"clusterName": cluster, "replicas": replicas, "template": {"spec": machine | {"version": "v1.36.3"}}}
    return config, {"kind": "MachinePool", "metadata": {"name": name}, "spec": spec}


def machine(
    name: str, cluster: str = "mycluster", deployment: str | None = "workers", pool: str | None = None
) -> dict[str, Any]:
    """A Machine of a MachineDeployment, of a MachinePool, or of the control plane."""
    part = {"cluster.x-k8s.io/deployment-name": deployment} if deployment else {"cluster.x-k8s.io/control-plane": ""}
    part = {"cluster.x-k8s.io/pool-name": pool} if pool else part
    reference = {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name}
    return {
        "kind": "Machine",
        "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": cluster, **part}},
        "spec": {
            "clusterName": cluster,
            "bootstrap": {"configRef": reference},
            "infrastructureRef": INFRASTRUCTURE | {"kind": "LabMachine"},
        },
    }
