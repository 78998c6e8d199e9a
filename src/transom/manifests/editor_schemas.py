"""JSON Schemas of Transom's kinds for editors and `check-jsonschema`, made from their definitions.

A field that a definition does not know is pruned by an API server; here it is an error, so that a typo is seen at once.
"""

from typing import Any

from transom.manifests.definitions import GROUP, KINDS, VERSION, definitions


def editor_schemas() -> dict[str, dict[str, Any]]:
    """The schemas by the names of their files, as kubeconform looks for them: `egressproxy_v1alpha1.json`."""
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
