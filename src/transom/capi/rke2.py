"""What templates of RKE2's provider for Cluster API get: the files of a kubeadm machine, for the services of RKE2.

rancher/cluster-api-provider-rke2, bootstrap/api/v1beta2/rke2config_types.go: `files` are those of a KubeadmConfigSpec.
Server and agent hand their environment on to the containerd and the kubelet that they start (docs.rke2.io/advanced); the
installer is a command of the machine, and runs after `preRKE2Commands`.
"""

from typing import Any, Final

import msgspec

from transom.capi.kubeadm import Entries
from transom.capi.machine_files import command_environment, drop_ins, machine_environment, restart, trusted
from transom.proxy.settings import Egress

CONTROL_PLANE: Final = "RKE2ControlPlane"
_SERVER: Final = "rke2-server"
_AGENT: Final = "rke2-agent"


def objects(name: str, namespace: str, secret: str, egress: Egress) -> list[dict[str, Any]]:
    """The control plane and the template of workers with our entries alone; none where the machines get nothing."""
    server, agent = (_lists(_entries(secret, egress, service)) for service in (_SERVER, _AGENT))
    if not server:
        return []
    return [
        {
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
            "kind": CONTROL_PLANE,
            "metadata": {"name": name, "namespace": namespace},
            "spec": server,
        },
        {
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
            "kind": "RKE2ConfigTemplate",
            "metadata": {"name": f"{name}-linux", "namespace": namespace},
            "spec": {"template": {"spec": agent}},
        },
    ]


def _entries(secret: str, egress: Egress, service: str) -> Entries:
    entries = Entries()
    if "Nodes" not in egress.consumers:
        return entries
    if egress.http_proxy or egress.https_proxy:
        entries += drop_ins(secret, (service, *egress.linux.services))
        whole = egress.linux.environment_scope == "Both"
        entries += machine_environment(secret, commands=True) if whole else command_environment(secret)
    if egress.trust:
        entries += trusted(egress.trust)
    return entries + Entries(pre=(restart((service, *egress.linux.services)),)) if entries.files else entries


def _lists(entries: Entries) -> dict[str, Any]:
    lists = {"files": [msgspec.to_builtins(file) for file in entries.files], "preRKE2Commands": list(entries.pre)}
    return {key: value for key, value in lists.items() if value}
