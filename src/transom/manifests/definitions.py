"""The CustomResourceDefinitions, made from the structs that read the objects; of them, JSON Schemas for editors."""

from typing import Any, Final

from transom.manifests.egress_proxy import EGRESS_PROXY
from transom.manifests.grants import LABELS
from transom.manifests.schema import Kind, Rules, object_schema, text
from transom.manifests.windows_instance import WINDOWS_INSTANCE

GROUP: Final = "transom.dev"
VERSION: Final = "v1alpha1"
KEPT: Final = {"helm.sh/resource-policy": "keep"}
"""Helm leaves them where the chart is uninstalled: with a definition all of its objects go (helm.sh, "Chart Tips")."""
KINDS: Final = (EGRESS_PROXY, WINDOWS_INSTANCE)


def definitions() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions (apiextensions.k8s.io/v1)."""
    return [_definition(kind) for kind in KINDS]


_STATUS: Final = {
    "status": Rules("What Transom says of it."),
    "status.observedGeneration": Rules(
        "The generation of the object that the status speaks of.", {"format": "int64", "minimum": 0}
    ),
    "status.conditions": Rules("What is known about the object."),
}
"""What is said of the fields that every status has."""


def _status(kind: Kind) -> dict[str, Any]:
    schema = object_schema(kind.status, kind.rules | _STATUS, "status")
    fields = schema["properties"]
    # people read them last
    fields["conditions"] = fields.pop("conditions")
    return schema


def _definition(kind: Kind) -> dict[str, Any]:
    root: dict[str, Any] = {
        "description": kind.description,
        "type": "object",
        "properties": {
            "apiVersion": text("The version of this schema: https://kubernetes.io/docs/concepts/overview/kubernetes-api/."),
            "kind": text(f"{kind.kind}."),
            "metadata": {"type": "object"},
            "spec": object_schema(kind.spec, kind.rules, "spec"),
            "status": _status(kind),
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


def editor_schemas() -> dict[str, dict[str, Any]]:
    """JSON Schemas for editors and `check-jsonschema`, by file as kubeconform looks for it: `egressproxy_v1alpha1.json`.

    A field that a definition does not know is pruned by an API server; here it is an error, so that a typo is seen at once.
    """
    found = {}
    for kind, definition in zip(KINDS, definitions(), strict=True):
        (version,) = definition["spec"]["versions"]
        root = _closed(version["schema"]["openAPIV3Schema"])
        properties = root["properties"] | {
            "apiVersion": {"const": f"{GROUP}/{VERSION}"},
            "kind": {"const": kind.kind},
            "metadata": {"type": "object", "required": ["name"]},
        }
        head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": kind.kind}
        required = ["apiVersion", "kind", "metadata", *root.get("required", ())]
        found[f"{kind.kind.lower()}_{VERSION}.json"] = head | root | {"properties": properties, "required": required}
    return found


def _closed(schema: Any) -> Any:
    """Without what is Kubernetes' own; objects whose fields are known have no others."""
    if isinstance(schema, list | tuple):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    known = {name: value for name, value in schema.items() if not name.startswith("x-kubernetes-")}
    made = {name: _closed(value) for name, value in known.items() if name != "properties"}
    if "properties" in known:
        made["properties"] = {name: _closed(value) for name, value in known["properties"].items()}
        made.setdefault("additionalProperties", False)
    return made
