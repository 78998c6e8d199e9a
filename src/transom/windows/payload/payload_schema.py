"""The JSON Schema of payload.yaml (draft 2020-12), for editors and for checks before Transom reads the file."""

from typing import Any

import msgspec

from transom.windows.payload.payload import API_VERSION, KIND, Payload

_REQUIRED = {
    "Payload": ("apiVersion", "kind", "version", "kubernetes"),
    "PayloadFile": ("path",),
    "PayloadService": ("name", "command"),
    "Variable": ("name",),
}
_ONE_OF = {"PayloadFile": ("source", "url", "content", "provided")}


def payload_schema() -> dict[str, Any]:
    """The schema as plain values. What only a look at the whole file can tell is not in it (`windows.payload.examine`)."""
    schema = msgspec.json.schema(Payload)
    for name, definition in schema["$defs"].items():
        definition["additionalProperties"] = False
        definition["required"] = list(_REQUIRED.get(name, ()))
        if name in _ONE_OF:
            definition["oneOf"] = [{"required": [field]} for field in _ONE_OF[name]]
    properties = schema["$defs"]["Payload"]["properties"]
    properties["apiVersion"], properties["kind"] = {"const": API_VERSION}, {"const": KIND}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "payload.yaml of Transom", **schema}
