"""The part of Giant Swarm's App that Transom reads and writes (github.com/giantswarm/apiextensions-application, config/crd)."""

from typing import Any

_REFERENCE = {
    "type": "object",
    "nullable": True,
    "required": ["name", "namespace"],
    "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}},
}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "apps.application.giantswarm.io"},
    "spec": {
        "group": "application.giantswarm.io",
        "names": {"kind": "App", "listKind": "AppList", "plural": "apps", "singular": "app"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                                "properties": {
                                    "config": {
                                        "type": "object",
                                        "nullable": True,
                                        "properties": {"configMap": _REFERENCE, "secret": _REFERENCE},
                                    }
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}


def app(name: str, namespace: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """An App."""
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"kind": "App", "metadata": metadata, "spec": {"catalog": "default", **spec}}


def release(name: str, namespace: str, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A HelmRelease of Flux."""
    return {
        "kind": "HelmRelease",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"interval": "15m", "chartRef": {"kind": "OCIRepository", "name": "podinfo"}, **spec},
    }
