"""The payload that Transom ships."""

from pathlib import Path

import yaml
from typer.testing import CliRunner

from transom.cli.program import build_program
from transom.hosts.steps.payload_directory import PayloadDirectory
from transom.proxy.secret import Secret

FACTS = {
    "API_SERVER": "https://api-int.x:6443",
    "CLUSTER_DNS": "172.30.0.10",
    "CLUSTER_DOMAIN": "cluster.local",
    "SERVICE_CIDR": "172.30.0.0/16",
    "CLUSTER_CIDR": "10.128.0.0/14",
    "NODE_LABELS": "node.openshift.io/os_id=Windows",
    "CLOUD_PROVIDER_ARGUMENT": "",
    "PAUSE_IMAGE": "mcr.microsoft.com/oss/kubernetes/pause:3.9",
    "VXLAN_PORT": "9898",
}
KUBEADM = {
    "API_SERVER": "https://10.0.0.1:6443",
    "CLUSTER_DNS": "10.96.0.10",
    "CLUSTER_DOMAIN": "cluster.local",
    "SERVICE_CIDR": "10.96.0.0/12",
    "CLUSTER_CIDR": "10.244.0.0/16",
    "NODE_LABELS": "node.openshift.io/os_id=Windows",
    "CLOUD_PROVIDER_ARGUMENT": "",
    "PAUSE_IMAGE": "mcr.microsoft.com/oss/kubernetes/pause:3.10",
}
PROVIDED: dict[str, Secret | None] = {
    "kubelet-ca": Secret("clients"),
    "api-server-ca": Secret("server"),
    "bootstrap-kubeconfig": Secret("token: hunter2"),
    "node-manager-kubeconfig": Secret("token: hunter3"),
    "exporter-certificate": Secret("certificate"),
    "exporter-key": Secret("hunter4"),
}


def shipped(*arguments: str) -> str:
    done = CliRunner().invoke(build_program(), ["payload", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def complete(path: Path) -> PayloadDirectory:
    """The shipped payload with programs that a simulated host starts."""
    shipped("default", "--output-dir", str(path))
    for file in yaml.safe_load((path / "payload.yaml").read_text())["files"]:
        if source := file.get("source"):
            (path / source).parent.mkdir(parents=True, exist_ok=True)
            (path / source).write_bytes(b"MZ " + source.encode())
    return PayloadDirectory.open(path)
