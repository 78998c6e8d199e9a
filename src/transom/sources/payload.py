"""`payload.yaml`, read and examined."""

from transom.proxy.finding import Finding, Place, errors
from transom.sources.decoding import INVALID, Decoder
from transom.sources.yaml_text import InvalidText, read_documents
from transom.windows.payload.payload import Payload, examine

FILE = "payload.yaml"


class PayloadError(Exception):
    """A payload that cannot be used: `findings` name file and field; `str` is the first of them, in one line."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        first = findings[0]
        place = first.file + (f":{first.line}" if first.line else "")
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        super().__init__(f"{place}: {first.field + ' ' if first.field else ''}{first.message}{more}")
        self.findings = findings


def read_payload(data: bytes, file: str = FILE) -> Payload:
    """The payload that a text describes. Raises PayloadError."""
    nowhere = Place(file, "Payload")
    try:
        documents = list(read_documents(data))
    except InvalidText as error:
        raise PayloadError((Finding("error", file, "", "", error.reason, error.line, error.column),)) from None
    if len(documents) != 1:
        raise PayloadError((nowhere.error((), f"must hold one document; it holds {len(documents)}"),))
    document = documents[0]
    place = Place(file, "Payload", document.locate)
    findings = [place.error(path, "stands twice") for path, _ in document.duplicates]
    payload = Decoder(place, findings, strict=True).struct(document.value, Payload, ())
    if payload is not INVALID and not errors(findings):
        findings += examine(payload, place)
    if errors(findings):
        raise PayloadError(tuple(finding for finding in findings if finding.severity == "error"))
    read: Payload = payload
    return read
