"""Who sets a field again: what `metadata.managedFields` and the last applied manifest say."""

import json
from typing import Any

import pytest

from transom.diagnosis.field_owners import describe_owners

PAUSED = {"f:spec": {"f:paused": {}}}
OTHER = {"f:spec": {"f:address": {}}}


def instance(*entries: dict[str, Any], labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    meta = {"name": "win-1", "labels": labels or {}, "annotations": annotations, "managedFields": list(entries)}
    return {"metadata": meta, "spec": {"paused": False}}


def entry(manager: str, operation: str = "Apply", fields: Any = PAUSED, **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **more}


def applied(value: Any) -> dict[str, str]:
    return {"kubectl.kubernetes.io/last-applied-configuration": value if isinstance(value, str) else json.dumps(value)}


FLUX = {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
MADE = {"transom.dev/source": "ConfigMap"}


@pytest.mark.parametrize(
    ("value", "owners"),
    [
        (instance(), []),
        (instance(entry("kubectl-create", "Update")), []),
        (instance(entry("transom-cli")), []),
        (instance(entry("kustomize-controller", fields=OTHER)), []),
        (instance(entry("kustomize-controller")), ["Flux (kustomize-controller)"]),
        (instance(entry("kustomize-controller"), labels=FLUX), ["Flux (Kustomization flux-system/apps)"]),
        (instance(entry("kustomize-controller", subresource="status")), []),
        (instance(entry("argocd-controller")), ["Argo CD"]),
        (instance(entry("argocd-controller", "Update")), []),
        (instance(entry("helm", "Update")), ["Helm"]),
        (instance(entry("kubectl")), ["field manager kubectl"]),
        (
            instance(entry("transom"), labels=MADE, **{"transom.dev/origin": "10.0.0.7"}),
            ["Transom, from ConfigMap 10.0.0.7"],
        ),
        (instance(**applied({"spec": {"paused": False}})), ["`kubectl apply`"]),
        (instance(**applied({"spec": {"address": "a"}})), []),
        (instance(**applied("{"), **{"argocd.argoproj.io/tracking-id": "x"}), []),
        (instance(**applied({"spec": {"paused": True}}), **{"argocd.argoproj.io/tracking-id": "x"}), ["Argo CD"]),
        (instance(entry("a"), entry("a"), entry("b")), ["field manager a", "field manager b"]),
        ({"metadata": {"managedFields": "broken"}}, []),
    ],
)
def test_owners(value: dict[str, Any], owners: list[str]) -> None:
    assert list(describe_owners(value, "spec", "paused")) == owners
