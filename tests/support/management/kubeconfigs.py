"""The kubeconfig of a workload cluster, as Cluster API keeps it."""

import base64
from typing import Any

import yaml
from lab.control_plane import ControlPlane
from tests.support.management.management import Management


def kubeconfig(plane: ControlPlane, other: dict[str, str] | None = None, **user: Any) -> str:
    """As Cluster API writes it: everything in the text itself. `other` is put into the cluster's part."""
    cluster = {
        "server": plane.url,
        "certificate-authority-data": base64.b64encode(plane.authority_file.read_bytes()).decode(),
    } | (other or {})
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "admin", "user": user or {"token": plane.admin_token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
        "current-context": "lab",
    }
    return yaml.safe_dump(config)


async def put_kubeconfig(management: Management, text: str, cluster: str = "mycluster") -> None:
    metadata = {"name": f"{cluster}-kubeconfig", "namespace": management.org}
    await management.put({"kind": "Secret", "metadata": metadata, "stringData": {"value": text}})
