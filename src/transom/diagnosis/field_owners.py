"""The repeated writers of a field: GitOps tools revert changes that a person makes in the cluster. Pure.

Sources of the names of field managers: Flux `kustomize-controller` (main.go, `controllerName`) and `helm-controller` (main.go,
`ManagedFieldsManager = controllerName`); Argo CD `argocd-controller` (common/common.go, `ArgoCDSSAManager`); kubectl
`kubectl` (pkg/cmd/apply, `--server-side`). A manager that changes by server-side apply has the operation `Apply`, and owns
exactly the fields of the manifest (kubernetes.io, "Server-Side Apply").
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from transom.common.mappings import get_nested_value
from transom.controllers.runtime.cached_objects import ORIGIN, SOURCE
from transom.diagnosis.fields import get_items, get_labels, get_mapping, get_metadata
from transom.diagnosis.snapshot import Value
from transom.kube.client import FIELD_MANAGER

CLI_MANAGER: Final = "transom-cli"
"""The field manager of what the commands of a person write."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_ARGO_TRACKING: Final = "argocd.argoproj.io/tracking-id"
_FLUX: Final = {
    "kustomize-controller": ("Kustomization", "kustomize.toolkit.fluxcd.io"),
    "helm-controller": ("HelmRelease", "helm.toolkit.fluxcd.io"),
}
"""The kind that each controller of Flux applies from, and the group of the labels `name` and `namespace` that name it."""
_ARGO: Final = frozenset({"argocd-controller", "argocd-application-controller"})
_HELM: Final = "helm"


def describe_owners(value: Value, *path: str) -> tuple[str, ...]:
    """Return who sets the field at `path` again, each as a sentence knows it: `Flux (Kustomization flux-system/apps)`."""
    return tuple(dict.fromkeys(_iter_owners(value, path)))


def _iter_owners(value: Value, path: tuple[str, ...]) -> Iterator[str]:
    for entry in get_items(value, "metadata", "managedFields"):
        manager = str(entry.get("manager") or "")
        # Helm 3 merges its manifest into what is there, as an update
        applies = entry.get("operation") == "Apply" or manager == _HELM
        if applies and manager != CLI_MANAGER and not entry.get("subresource") and _has_field(entry, path):
            yield _describe_tool(manager, value)
    if get_nested_value(_read_last_applied(value), *path) is not None:
        yield "Argo CD" if _ARGO_TRACKING in get_mapping(get_metadata(value), "annotations") else "`kubectl apply`"


def _has_field(entry: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    return get_nested_value(entry.get("fieldsV1"), *(f"f:{part}" for part in path)) is not None


def _read_last_applied(value: Value) -> Any:
    """Return the manifest that `kubectl apply`, or Argo CD without server-side apply, recorded on the object."""
    text = get_mapping(get_metadata(value), "annotations").get(_LAST_APPLIED)
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _describe_tool(manager: str, value: Value) -> str:
    if manager == FIELD_MANAGER:
        source = get_labels(value).get(SOURCE, "")
        origin = get_mapping(get_metadata(value), "annotations").get(ORIGIN)
        return f"Transom, from {source} {origin}" if origin else "Transom"
    if manager in _FLUX:
        kind, group = _FLUX[manager]
        labels = get_labels(value)
        name = "/".join(filter(None, (labels.get(f"{group}/namespace"), labels.get(f"{group}/name"))))
        return f"Flux ({kind} {name})" if name else f"Flux ({manager})"
    if manager in _ARGO:
        return "Argo CD"
    return "Helm" if manager == _HELM else f"field manager {manager}"
