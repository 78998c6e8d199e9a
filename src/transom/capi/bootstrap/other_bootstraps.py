"""What templates of other bootstrap providers than kubeadm's get.

RKE2: the files of a kubeadm machine, for the services of RKE2. rancher/cluster-api-provider-rke2,
bootstrap/api/v1beta2/rke2config_types.go: `files` are those of a KubeadmConfigSpec. Server and agent hand their environment on
to the containerd and the kubelet that they start (docs.rke2.io/advanced); the installer
is a command of the machine, and runs after `preRKE2Commands`.

Talos: patches of its machine configuration, which has the values in it, since it can refer to no Secret. siderolabs/talos,
pkg/machinery/config/types/v1alpha1/v1alpha1_types.go: `machine.env` reaches the machine and each of its services, with the
names in lower case; pkg/machinery/config/types/security/trusted_roots.go: a document of its own for CAs. Where they stand:
siderolabs/cluster-api-bootstrap-provider-talos, api/v1beta1, and cluster-api-control-plane-provider-talos, api/v1alpha3.

EKS: the files of a kubeadm machine, and commands before EKS' own script. kubernetes-sigs/cluster-api-provider-aws v2.13.0,
bootstrap/eks/api/v1beta2/eksconfig_types.go and nodeadmconfig_types.go.
"""

from typing import Final

from transom.capi.bootstrap.kubeadm import Entries
from transom.capi.bootstrap.machine_files import (
    build_command_environment,
    build_drop_ins,
    build_linux_entries,
    build_machine_environment,
    build_restart_command,
    build_trust_entries,
)
from transom.capi.bootstrap.yaml_text import render_yaml
from transom.proxy.settings import Egress
from transom.proxy.trust import format_pem
from transom.proxy.url import redact_text

_SERVER: Final = "rke2-server"
_AGENT: Final = "rke2-agent"


def build_rke2_entries(secret: str, egress: Egress, *, control_plane: bool) -> Entries:
    """Build the entries of a server (control plane) or an agent; none if the machines get nothing."""
    service = _SERVER if control_plane else _AGENT
    entries = Entries()
    if "Nodes" not in egress.consumers:
        return entries
    if egress.http_proxy or egress.https_proxy:
        entries += build_drop_ins(secret, (service, *egress.linux.services))
        whole = egress.linux.environment_scope == "Both"
        entries += build_machine_environment(secret, commands=True) if whole else build_command_environment(secret)
    if egress.trust:
        entries += build_trust_entries(egress.trust)
    return entries + Entries(pre=(build_restart_command((service, *egress.linux.services)),)) if entries.files else entries


def build_talos_patches(egress: Egress, *, show_secrets: bool) -> list[str]:
    """Build the strategic patches of a machine configuration; none if the machines get nothing."""
    if "Nodes" not in egress.consumers:
        return []
    patches = []
    if egress.http_proxy or egress.https_proxy:
        values = {name.lower(): value for name, value in egress.variables.items()}
        if not show_secrets:
            values = {name: value if name == "no_proxy" else redact_text(value) for name, value in values.items()}
        patches.append(render_yaml({"machine": {"env": values}}))
    if egress.trust:
        certificates = "".join(f"  {line}\n" for line in format_pem(egress.trust).splitlines())
        patches.append(f"apiVersion: v1alpha1\nkind: TrustedRootsConfig\nname: transom-egress\ncertificates: |\n{certificates}")
    return patches


_SANDBOX_IMAGE: Final = "sandbox-image"
"""The service of Amazon Linux 2 that pulls the image of every pod's sandbox (AWS re:Post, "How can I automate the configuration
of HTTP proxy for EKS containerd nodes?")."""


def build_eks_entries(secret: str, egress: Egress, *, nodeadm: bool) -> Entries:
    """Build the entries of EKS workers: of an EKSConfig (Amazon Linux 2), or of a NodeadmConfig."""
    entries = build_linux_entries(secret, egress)
    if entries.files and not nodeadm and (egress.http_proxy or egress.https_proxy):
        entries += build_drop_ins(secret, (_SANDBOX_IMAGE,))
    return entries
