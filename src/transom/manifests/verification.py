"""What a person needs who runs `transom verify cluster`: no ServiceAccount of Transom has it."""

from typing import Any, Final

from transom.manifests.grants import RBAC, Rule, rule

NAME: Final = "transom-verify-cluster"
RULES: Final[tuple[Rule, ...]] = (
    rule("", "nodes", "list", "the Windows nodes, and one of Linux"),
    rule("", "namespaces", "get list create patch delete", "the namespace of the verification, and those that were left"),
    rule("", "pods", "list create deletecollection", "a web server on each node; away where no kubelet ends it"),
    rule("", "pods/log", "get", "check `logs`"),
    rule("", "pods/exec", "get create", "a connection from each pod; `create` is asked for from Kubernetes 1.35 on (KEP-4006)"),
    rule("", "services", "list create", "a Service with pods of Windows, one of Linux, and a load balancer"),
)


def cluster_role() -> dict[str, Any]:
    """A ClusterRole of these rules, and nothing else."""
    return {
        "apiVersion": RBAC,
        "kind": "ClusterRole",
        "metadata": {"name": NAME},
        "rules": [one.manifest() for one in RULES],
    }
