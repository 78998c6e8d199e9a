"""`python -m website.values_page`: docs/values.md, every value of an install, from their JSON Schema."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from transom.manifests.values import schema

PAGE: Final = Path(__file__).parents[1] / "docs" / "values.md"
_HEAD: Final = """# Values of an install

For `transom manifests --values FILE`, and for
[the chart](operator.md#by-helm-with-kustomize-or-from-a-file-of-values). A value that does not fit, or that nobody knows, is
refused by name. For editors: [values.json](schemas/values.json).

<!-- written by scripts/reference from manifests/values.py -->

| value | type | default | for |
|---|---|---|---|
"""


def page() -> str:
    """The page, as Markdown."""
    whole = schema()
    return _HEAD + "".join(f"{row}\n" for row in _rows(whole, whole["$defs"], ""))


def _rows(of: Mapping[str, Any], definitions: Mapping[str, Any], before: str) -> Iterator[str]:
    for name, field in of["properties"].items():
        if reference := field.get("$ref"):
            yield from _rows(definitions[reference.rpartition("/")[2]], definitions, f"{before}{name}.")
        elif words := field.get("description"):
            kind = " or ".join(f"`{_text(one)}`" for one in field["enum"]) if "enum" in field else field.get("type", "")
            default = f"`{_text(field['default'])}`" if "default" in field else ""
            yield f"| `{before}{name}` | {kind} | {default} | {words.replace('|', chr(92) + '|')} |"


def _text(value: object) -> str:
    return json.dumps(value)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
