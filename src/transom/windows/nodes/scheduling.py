"""How pods come to Windows nodes: one taint of every node that Transom makes, one toleration, a RuntimeClass for each build.

The taint is that of OpenShift's Windows nodes (openshift/windows-machine-config-operator 0be4b9ccb, docs/enhancements); the
documentation of Kubernetes writes `os=windows`. A toleration of the key fits both.
"""

from collections.abc import Iterator
from typing import Any, Final

TAINT: Final = {"key": "os", "value": "Windows", "effect": "NoSchedule"}
TOLERATION: Final = {"key": TAINT["key"], "operator": "Exists", "effect": TAINT["effect"]}
WINDOWS_BUILDS: Final = {"2019": "10.0.17763", "2022": "10.0.20348", "2025": "10.0.26100"}
"""By year, the value of label `node.kubernetes.io/windows-build`. Containers need the build of their base image."""


def build_runtime_class(year: str) -> dict[str, Any]:
    """Return the RuntimeClass of a Windows release: its pods select nodes of that build and tolerate their taint.

    Kubernetes: "Guide for running Windows containers", Handling multiple Windows versions in the same cluster.
    """
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": f"windows-{year}"},
        "handler": "runhcs-wcow-process",
        "scheduling": {
            "nodeSelector": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "windows",
                "node.kubernetes.io/windows-build": WINDOWS_BUILDS[year],
            },
            "tolerations": [dict(TOLERATION)],
        },
    }


def iter_runtime_classes() -> Iterator[dict[str, Any]]:
    """Yield the RuntimeClasses of all releases."""
    yield from map(build_runtime_class, WINDOWS_BUILDS)
