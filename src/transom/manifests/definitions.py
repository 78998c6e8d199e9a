"""The CustomResourceDefinitions, made from the structs that read the objects; of them, JSON Schemas for editors."""

from typing import Any, Final

from transom.manifests.egress_proxy import EGRESS_PROXY
from transom.manifests.grants import LABELS
from transom.manifests.schema import FieldRules, Kind, build_object_schema, build_string_schema
from transom.manifests.windows_instance import WINDOWS_INSTANCE

GROUP: Final = "transom.dev"
VERSION: Final = "v1alpha1"
KEPT: Final = {"helm.sh/resource-policy": "keep"}
"""Helm leaves them where the chart is uninstalled: with a definition all of its objects go (helm.sh, "Chart Tips")."""
KINDS: Final = (EGRESS_PROXY, WINDOWS_INSTANCE)


def build_crds() -> list[dict[str, Any]]:
    """Build the CustomResourceDefinitions (apiextensions.k8s.io/v1)."""
    return [_build_crd(kind) for kind in KINDS]


_STATUS: Final = {
    "status": FieldRules("The status that Transom reports."),
    "status.observedGeneration": FieldRules(
        "The generation of the object that the status was computed from.", {"format": "int64", "minimum": 0}
    ),
    "status.conditions": FieldRules("The conditions of the object."),
}
"""The descriptions of the fields that every status has."""


def _build_status_schema(kind: Kind) -> dict[str, Any]:
    schema = build_object_schema(kind.status, kind.rules | _STATUS, "status")
    fields = schema["properties"]
    # people read them last
    fields["conditions"] = fields.pop("conditions")
    return schema


def _build_crd(kind: Kind) -> dict[str, Any]:
    root: dict[str, Any] = {
        "description": kind.description,
        "type": "object",
        "properties": {
            "apiVersion": build_string_schema(
                "The version of this schema: https://kubernetes.io/docs/concepts/overview/kubernetes-api/."
            ),
            "kind": build_string_schema(f"{kind.kind}."),
            "metadata": {"type": "object"},
            "spec": build_object_schema(kind.spec, kind.rules, "spec"),
            "status": _build_status_schema(kind),
        },
    }
    if kind.spec_required:
        root["required"] = ["spec"]
    if kind.checks:
        root["x-kubernetes-validations"] = list(kind.checks)
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular,
        "shortNames": [kind.short_name],
        "categories": ["transom"],
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": {"status": {}},
        "additionalPrinterColumns": list(kind.columns),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}", "labels": LABELS, "annotations": KEPT},
        "spec": {"group": GROUP, "scope": kind.scope, "names": names, "versions": [version]},
    }


def build_editor_schemas() -> dict[str, dict[str, Any]]:
    """JSON Schemas for editors and `check-jsonschema`, by file as kubeconform looks for it: `egressproxy_v1alpha1.json`.

    A field that a definition does not know is pruned by an API server; here it is an error, so that a typo is seen at once.
    """
    schemas = {}
    for kind, definition in zip(KINDS, build_crds(), strict=True):
        (version,) = definition["spec"]["versions"]
        root = _close_schema(version["schema"]["openAPIV3Schema"])
        properties = root["properties"] | {
            "apiVersion": {"const": f"{GROUP}/{VERSION}"},
            "kind": {"const": kind.kind},
            "metadata": {"type": "object", "required": ["name"]},
        }
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": kind.kind}
        required = ["apiVersion", "kind", "metadata", *root.get("required", ())]
        schemas[f"{kind.kind.lower()}_{VERSION}.json"] = head | root | {"properties": properties, "required": required}
    return schemas


def _close_schema(schema: Any) -> Any:
    """Without what is Kubernetes' own; objects whose fields are known have no others."""
    if isinstance(schema, list | tuple):
        return [_close_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    known = {name: value for name, value in schema.items() if not name.startswith("x-kubernetes-")}
    made = {name: _close_schema(value) for name, value in known.items() if name != "properties"}
    if "properties" in known:
        made["properties"] = {name: _close_schema(value) for name, value in known["properties"].items()}
        made.setdefault("additionalProperties", False)
    return made
