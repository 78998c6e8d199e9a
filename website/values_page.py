"""`python -m website.values_page`: write docs/values.md, every value of an installation, from their JSON Schema."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from transom.manifests.values import Values, build_values_schema, to_json_data

PAGE: Final = Path(__file__).parents[1] / "docs" / "values.md"
_HEAD: Final = """# Installation values

This page lists the values for `transom manifests --values FILE` and for
[the Helm chart](install.md#helm-kustomize-and-values-files). Both reject invalid and unknown values and name them.
Editors can use the schema [values.json](schemas/values.json).

<!-- written by scripts/reference from manifests/values.py -->

| value | type | default | description |
|---|---|---|---|
"""


def render_page() -> str:
    """Render the page as Markdown."""
    whole = build_values_schema()
    rows = _render_rows(whole, whole["$defs"], to_json_data(Values()), "")
    return _HEAD + "".join(f"{row}\n" for row in rows)


def _render_rows(
    part: Mapping[str, Any], definitions: Mapping[str, Any], defaults: Mapping[str, Any], before: str
) -> Iterator[str]:
    # two workloads share a type, and have different defaults
    for name, field in part["properties"].items():
        if reference := field.get("$ref"):
            yield from _render_rows(definitions[reference.rpartition("/")[2]], definitions, defaults[name], f"{before}{name}.")
        elif words := field.get("description"):
            kind = (
                " or ".join(f"`{_format_value(item)}`" for item in field["enum"]) if "enum" in field else field.get("type", "")
            )
            yield f"| `{before}{name}` | {kind} | `{_format_value(defaults[name])}` | {words.replace('|', chr(92) + '|')} |"


def _format_value(value: object) -> str:
    return json.dumps(value)


if __name__ == "__main__":
    PAGE.write_text(render_page(), "utf-8")
