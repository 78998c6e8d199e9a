"""Definitions of other projects' kinds, with schemas that take anything."""

from typing import Any


def definition(group: str, version: str, kind: str, plural: str, scope: str = "Cluster") -> dict[str, Any]:
    """A CustomResourceDefinition. Groups of openshift.io and k8s.io are protected: the annotation says who approved them."""
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [served]},
    }
