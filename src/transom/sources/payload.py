"""`payload.yaml`, read and examined; and its JSON Schema (draft 2020-12), for editors and for checks before Transom reads."""

from typing import Any

import msgspec

from transom.proxy.finding import Finding, Place, has_errors
from transom.sources.decoding import INVALID, Decoder
from transom.sources.yaml_text import InvalidText, read_documents
from transom.windows.payload.payload import API_VERSION, KIND, Payload, examine_payload

FILE = "payload.yaml"
_REQUIRED = {
    "Payload": ("apiVersion", "kind", "version", "kubernetes"),
    "PayloadFile": ("path",),
    "PayloadService": ("name", "command"),
    "Variable": ("name",),
}
_ONE_OF = {"PayloadFile": ("source", "url", "content", "provided")}


class PayloadError(Exception):
    """A payload that cannot be used: `findings` name file and field; `str` is the first of them, in one line."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        first = findings[0]
        place = first.file + (f":{first.line}" if first.line else "")
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        super().__init__(f"{place}: {first.field + ' ' if first.field else ''}{first.message}{more}")
        self.findings = findings


def parse_payload(data: bytes, file: str = FILE) -> Payload:
    """Parse a payload. Raises PayloadError."""
    nowhere = Place(file, "Payload")
    try:
        documents = list(read_documents(data))
    except InvalidText as error:
        raise PayloadError((Finding("error", file, "", "", error.reason, error.line, error.column),)) from None
    if len(documents) != 1:
        raise PayloadError((nowhere.build_error((), f"must hold one document; it holds {len(documents)}"),))
    document = documents[0]
    place = Place(file, "Payload", document.locate)
    findings = [place.build_error(path, "duplicate key") for path, _ in document.duplicates]
    payload = Decoder(place, findings, strict=True).decode_struct(document.value, Payload, ())
    if payload is not INVALID and not has_errors(findings):
        findings += examine_payload(payload, place)
    if has_errors(findings):
        raise PayloadError(tuple(finding for finding in findings if finding.severity == "error"))
    read: Payload = payload
    return read


def build_payload_schema() -> dict[str, Any]:
    """Build the schema as plain values, without rules over the whole file (`windows.payload.examine`)."""
    schema = msgspec.json.schema(Payload)
    for name, definition in schema["$defs"].items():
        definition["additionalProperties"] = False
        definition["required"] = list(_REQUIRED.get(name, ()))
        if name in _ONE_OF:
            definition["oneOf"] = [{"required": [field]} for field in _ONE_OF[name]]
    properties = schema["$defs"]["Payload"]["properties"]
    properties["apiVersion"], properties["kind"] = {"const": API_VERSION}, {"const": KIND}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "payload.yaml of Transom", **schema}
