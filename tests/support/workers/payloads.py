"""Payloads for hosts that run nothing real: small files, and services that a simulated host starts."""

from pathlib import Path

from transom.hosts.steps.payload_directory import PayloadDirectory

VARIABLES = r"""variables:
- {name: SUBNET, node: "{.metadata.annotations.k8s\\.ovn\\.org/hybrid-overlay-node-subnet}"}
- {name: SOURCE_VIP, script: source-vip.ps1}
"""
"""What a network with a hybrid overlay gives."""
TEXT = (
    r"""
apiVersion: transom.dev/v1alpha1
kind: Payload
version: 1.36.3-1
kubernetes: v1.36.3
ports: [10250, 9182]
mirrors: C:\k\containerd\certs.d
directories: ['C:\k', 'C:\k\logs', 'C:\var\log\pods']
"""
    + VARIABLES
    + r"""files:
- {path: 'C:\k\containerd.exe', source: bin/containerd.exe, services: [containerd]}
- {path: 'C:\k\kubelet.exe', source: bin/kubelet.exe, services: [kubelet]}
- {path: 'C:\k\kube-proxy.exe', source: bin/kube-proxy.exe, services: [kube-proxy]}
- {path: 'C:\k\pki\ca.crt', provided: kubelet-ca, services: [kubelet]}
- {path: 'C:\k\bootstrap.kubeconfig', provided: bootstrap-kubeconfig, services: [kubelet]}
- path: C:\k\cni\conf\10-net.conf
  services: [kube-proxy]
  content: |
    {"cniVersion": "1.0.0", "name": "net", "subnet": "${SUBNET}"}
services:
- name: kubelet
  order: 2
  command: C:\k\kubelet.exe --hostname-override=${NODE_NAME} --node-ip=${NODE_IP} --config="C:\k\kubelet config.yaml"
  dependsOn: [containerd]
  egress: true
- name: containerd
  order: 1
  command: C:\k\containerd.exe --run-service --log-file "C:\k\logs\containerd.log"
  environment: {CONTAINERD_X: "1"}
  egress: true
- name: kube-proxy
  order: 3
  command: C:\k\kube-proxy.exe --windows-service --source-vip=${SOURCE_VIP} --hostname-override=${NODE_NAME}
  dependsOn: [kubelet]
"""
)


def write(path: Path, text: str = TEXT, sizes: int = 3000) -> Path:
    """A payload's directory."""
    (path / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("containerd", "kubelet", "kube-proxy"):
        (path / "bin" / f"{name}.exe").write_bytes((b"MZservice " + name.encode()).ljust(sizes, b"."))
    (path / "source-vip.ps1").write_text("(Get-HnsEndpoint)[0].IPAddress\n")
    (path / "payload.yaml").write_text(text)
    return path


def opened(path: Path, text: str = TEXT, sizes: int = 3000) -> PayloadDirectory:
    """The same, opened."""
    return PayloadDirectory.open(write(path, text, sizes))
