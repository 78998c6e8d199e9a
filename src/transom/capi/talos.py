"""What Talos machines get: patches of their machine configuration, which has the values in it, since it can refer to no Secret.

siderolabs/talos, pkg/machinery/config/types/v1alpha1/v1alpha1_types.go: `machine.env` reaches the machine and each of its
services, with the names in lower case; pkg/machinery/config/types/security/trusted_roots.go: a document of its own for CAs.
Where they stand: siderolabs/cluster-api-bootstrap-provider-talos, api/v1beta1, and cluster-api-control-plane-provider-talos,
api/v1alpha3.
"""

from typing import Any, Final

from transom.capi.yaml_text import render
from transom.proxy.settings import Egress
from transom.proxy.trust import pem
from transom.proxy.url import redacted

CONTROL_PLANE: Final = "TalosControlPlane"


def objects(name: str, namespace: str, egress: Egress, *, show_secrets: bool) -> list[dict[str, Any]]:
    """The control plane and the template of workers with our patches alone; none where the machines get nothing."""
    patches = _patches(egress, show_secrets=show_secrets)
    if not patches:
        return []
    return [
        {
            "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha3",
            "kind": CONTROL_PLANE,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"controlPlaneConfig": {"controlplane": {"strategicPatches": patches}}},
        },
        {
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1",
            "kind": "TalosConfigTemplate",
            "metadata": {"name": f"{name}-linux", "namespace": namespace},
            "spec": {"template": {"spec": {"strategicPatches": patches}}},
        },
    ]


def _patches(egress: Egress, *, show_secrets: bool) -> list[str]:
    if "Nodes" not in egress.consumers:
        return []
    patches = []
    if egress.http_proxy or egress.https_proxy:
        values = {name.lower(): value for name, value in egress.variables.items()}
        if not show_secrets:
            values = {name: value if name == "no_proxy" else redacted(value) for name, value in values.items()}
        patches.append(render({"machine": {"env": values}}))
    if egress.trust:
        certificates = "".join(f"  {line}\n" for line in pem(egress.trust).splitlines())
        patches.append(f"apiVersion: v1alpha1\nkind: TrustedRootsConfig\nname: transom-egress\ncertificates: |\n{certificates}")
    return patches
