"""What the pages of `docs` say of the parts of a host: each part says it in its module, its switch in the API's definition."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from transom.manifests.definitions import build_crds
from transom.windows.ledger import SETTINGS
from transom.windows.parts.part import About

BEGIN: Final = "<!-- parts of a host: written by scripts/reference -->"
END: Final = "<!-- /parts of a host -->"


def _render_settings() -> Iterator[str]:
    """Render the switches of `spec.windows`."""
    (schema,) = (
        version["schema"]["openAPIV3Schema"]
        for definition in build_crds()
        if definition["spec"]["names"]["kind"] == "EgressProxy"
        for version in definition["spec"]["versions"]
    )
    fields: Mapping[str, Any] = schema["properties"]["spec"]["properties"]["windows"]["properties"]
    yield "| field of `windows` | description |"
    yield "|---|---|"
    yield from (f"| `{name}` | {field['description']} |" for name, field in fields.items() if field["type"] == "boolean")


def _render_security() -> Iterator[str]:
    yield "| where on a host | what | who can read it |"
    yield "|---|---|---|"
    for about in _list_abouts().values():
        yield f"| {about.place} | {about.content} | {about.readers} |"


def _render_assumptions() -> Iterator[str]:
    yield "| assumption | where it matters | source | check on a real node (PowerShell or cmd, as administrator) | seen |"
    yield "|---|---|---|---|---|"
    for module, about in _list_abouts().items():
        for assumption in about.assumptions:
            yield f"| {assumption.claim} | `windows/parts/{module}.py` | {assumption.source} | {assumption.check} | |"


def _list_abouts() -> dict[str, About]:
    return {name: part.ABOUT for name, part in SETTINGS.items()}


PAGES: Final[Mapping[str, Callable[[], Iterator[str]]]] = {
    "settings.md": _render_settings,
    "security.md": _render_security,
    "verified.md": _render_assumptions,
}
"""The pages that have a table of them, and what makes its lines."""


def insert_parts(name: str, page: str) -> str:
    """Return a page of `PAGES` with a new table between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "\n".join(PAGES[name]())
    return f"{before}{BEGIN}\n{table}\n{END}{after}"
