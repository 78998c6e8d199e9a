"""The JSON Schemas for editors are those of the definitions, and know a typo."""

import json

from tests.support.repository import DOCS

from transom.manifests.definitions import build_editor_schemas


def test_the_files_are_those_of_the_definitions() -> None:
    """`scripts/reference` writes them."""
    schemas = build_editor_schemas()
    assert sorted(schemas) == ["egressproxy_v1alpha1.json", "windowsinstance_v1alpha1.json"]
    for name, schema in schemas.items():
        assert json.loads((DOCS / "schemas" / name).read_text("utf-8")) == json.loads(json.dumps(schema))


def test_a_field_that_is_not_known_is_an_error_and_labels_are_free() -> None:
    schema = build_editor_schemas()["egressproxy_v1alpha1.json"]
    spec = schema["properties"]["spec"]
    assert spec["additionalProperties"] is False
    assert spec["properties"]["networks"]["additionalProperties"] is False
    labels = spec["properties"]["clusterSelector"]["properties"]["matchLabels"]
    assert labels["additionalProperties"] == {"type": "string"} or labels["additionalProperties"]["type"] == "string"
    assert schema["properties"]["kind"] == {"const": "EgressProxy"}
    assert "x-kubernetes" not in json.dumps(schema)
