"""What the pages of `docs` say of the parts of a host: each part says it in its module, its switch in the API's definition."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from transom.manifests.definitions import definitions
from transom.windows.ledger import SETTINGS
from transom.windows.parts.part import About

BEGIN: Final = "<!-- parts of a host: written by scripts/reference -->"
END: Final = "<!-- /parts of a host -->"


def _settings() -> Iterator[str]:
    """The switches of `spec.windows`."""
    (schema,) = (
        version["schema"]["openAPIV3Schema"]
        for definition in definitions()
        if definition["spec"]["names"]["kind"] == "EgressProxy"
        for version in definition["spec"]["versions"]
    )
    fields: Mapping[str, Any] = schema["properties"]["spec"]["properties"]["windows"]["properties"]
    yield "| field of `windows` | where it is `true` |"
    yield "|---|---|"
    yield from (f"| `{name}` | {field['description']} |" for name, field in fields.items() if field["type"] == "boolean")


def _security() -> Iterator[str]:
    yield "| where on a host | what | who can read it |"
    yield "|---|---|---|"
    for one in _abouts().values():
        yield f"| {one.place} | {one.content} | {one.readers} |"


def _verified() -> Iterator[str]:
    yield "| assumption | where it matters | source | check on a real node (PowerShell or cmd, as administrator) | seen |"
    yield "|---|---|---|---|---|"
    for module, about in _abouts().items():
        for one in about.assumptions:
            yield f"| {one.claim} | `windows/parts/{module}.py` | {one.source} | {one.check} | |"


def _abouts() -> dict[str, About]:
    return {name: part.ABOUT for name, part in SETTINGS.items()}


PAGES: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "settings.md": _settings,
    "security.md": _security,
    "verified.md": _verified,
}
"""The pages that have a table of them, and what makes its lines."""


def page_with_parts(name: str, page: str) -> str:
    """A page of `PAGES` with its table between the marks written anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "\n".join(PAGES[name]())
    return f"{before}{BEGIN}\n{table}\n{END}{after}"
