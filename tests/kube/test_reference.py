"""The field reference is made from the definitions, and is current."""

from tests.support.repository import DOCS

from transom.manifests.definitions import build_crds
from transom.manifests.reference import render_reference

PAGE = DOCS / "reference.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == render_reference(), "scripts/reference writes it anew"


def test_every_field_is_there() -> None:
    page = render_reference()

    def fields(schema: dict[str, object], path: str) -> list[str]:
        found = []
        for name, field in schema.get("properties", {}).items():  # type: ignore[attr-defined]
            inner = field.get("items", field)
            found += [f"{path}.{name}", *fields(inner, f"{path}.{name}" + ("[]" if "items" in field else ""))]
        return found

    for definition in build_crds():
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        for path in fields(schema["spec"], "spec") + fields(schema["status"], "status"):
            assert f"| `{path}` | " in page
