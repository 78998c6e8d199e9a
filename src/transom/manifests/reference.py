"""The field reference: a page that is generated from the CustomResourceDefinitions."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from transom.manifests.definitions import GROUP, VERSION, build_crds

_HEAD: Final = """# Field reference

This page lists every field of Transom's two custom resources, with its type and limits. For examples, read
[settings](settings.md) and [operator](operator.md) first. In a terminal, `kubectl explain egressproxy.spec` shows the same.

- [EgressProxy](#egressproxy): the proxy, the hosts that bypass it, and the CAs.
- [WindowsInstance](#windowsinstance): a Windows host, and how Transom reaches it.

The EgressProxy named `cluster` contains the default settings, for the cluster that it is in. Every other EgressProxy is an
*override* of these settings for some workload clusters of Cluster API. You write `spec`, and Transom writes `status`.

`scripts/reference` generates this page from the CRDs that `transom manifests` prints.
"""
_LIMITS: Final = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "maxItems": "at most {} items",
}
_EVIDENT: Final = (("minLength", 1), ("minimum", 0))


def render_reference() -> str:
    """Render the page as Markdown."""
    return _HEAD + "".join(line for definition in build_crds() for line in _render_kind(definition))


def _render_kind(definition: Mapping[str, Any]) -> Iterator[str]:
    spec = definition["spec"]
    names, schema = spec["names"], spec["versions"][0]["schema"]["openAPIV3Schema"]
    yield f"\n## {names['kind']}\n\n{schema['description']}\n\n"
    yield f"`{GROUP}/{VERSION}`, {spec['scope'].lower()}; short name `{names['shortNames'][0]}`.\n"
    for part in ("spec", "status"):
        yield f"\n| {part} | type | description |\n|---|---|---|\n"
        yield from _render_fields(schema["properties"][part], part)
    checks = [item["message"] for item in schema.get("x-kubernetes-validations", ()) if "message" in item]
    paths = [item.get("fieldPath", ".spec") for item in schema.get("x-kubernetes-validations", ()) if "message" in item]
    if checks:
        yield "\nThe API server also refuses:\n\n"
        yield from (f"- `{path.removeprefix('.')}` {message}\n" for path, message in zip(paths, checks, strict=True))


def _render_fields(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        inner = field.get("items", {}) if field["type"] == "array" else field
        yield f"| `{path}.{name}` | {_format_type(field)} | {_format_meaning(field, inner, required=name in required)} |\n"
        yield from _render_fields(inner, f"{path}.{name}[]" if field["type"] == "array" else f"{path}.{name}")


def _format_type(field: Mapping[str, Any]) -> str:
    if field["type"] == "array":
        return f"list of {_format_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map of {_format_type(field['additionalProperties'])}"
    return str(field.get("format") or field["type"])


def _format_meaning(field: Mapping[str, Any], inner: Mapping[str, Any], *, required: bool) -> str:
    parts = [field.get("description", "")]
    if "enum" in inner:
        parts.append(f"One of {', '.join(f'`{value}`' for value in inner['enum'])}.")
    if field.get("default"):
        parts.append(f"Default: {_format_value(field['default'])}.")
    limits = list(_iter_limits(field))
    if inner is not field:
        limits += [f"each {limit}" for limit in _iter_limits(inner)]
    if limits:
        parts.append(f"{', '.join(limits).capitalize()}.")
    checks = (check["message"] for check in inner.get("x-kubernetes-validations", ()) if "message" in check)
    parts += [f"{message[0].upper()}{message[1:]}." for message in checks]
    text = " ".join(filter(None, parts)).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
    return f"**Required.** {text}" if required else text


def _format_value(default: Any) -> str:
    if isinstance(default, list | tuple):
        return ", ".join(f"`{item}`" for item in default)
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _iter_limits(field: Mapping[str, Any]) -> Iterator[str]:
    for name, text in _LIMITS.items():
        if name in field and (name, field[name]) not in _EVIDENT:
            yield text.format(f"{field[name]:,}")
