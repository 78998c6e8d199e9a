"""The field reference: a page for people, made from the same definitions as the CustomResourceDefinitions."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from transom.manifests.definitions import GROUP, VERSION, definitions

_HEAD: Final = """# Field reference

Every field of Transom's two kinds, with its type and its limits. To learn how they work together, read
[settings.md](settings.md) and [operator.md](operator.md) first; both have examples. `kubectl explain egressproxy.spec` says
the same in a terminal.

- [EgressProxy](#egressproxy): the proxy, what bypasses it, and the CAs.
- [WindowsInstance](#windowsinstance): a Windows host, and how it is reached.

Words of this page:

- The *base* is the EgressProxy named `cluster`. It holds for the cluster that it is in.
- A *layer* is an EgressProxy of any other name. It is laid over the base for some workload clusters of Cluster API.
- "Of the base alone" marks a field that a layer must not have.
- You write `spec`. Transom writes `status`.

This page is generated: `scripts/reference` makes it from the definitions that `transom manifests` prints.
"""
_LIMITS: Final = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "maxItems": "at most {} items",
}
_EVIDENT: Final = (("minLength", 1), ("minimum", 0))


def reference() -> str:
    """The page, as Markdown."""
    return _HEAD + "".join(line for definition in definitions() for line in _kind(definition))


def _kind(definition: Mapping[str, Any]) -> Iterator[str]:
    spec = definition["spec"]
    names, schema = spec["names"], spec["versions"][0]["schema"]["openAPIV3Schema"]
    yield f"\n## {names['kind']}\n\n{schema['description']}\n\n"
    yield f"`{GROUP}/{VERSION}`, {spec['scope'].lower()}; short name `{names['shortNames'][0]}`.\n"
    for part in ("spec", "status"):
        yield f"\n| {part} | type | meaning |\n|---|---|---|\n"
        yield from _fields(schema["properties"][part], part)
    checks = [one["message"] for one in schema.get("x-kubernetes-validations", ()) if "message" in one]
    paths = [one.get("fieldPath", ".spec") for one in schema.get("x-kubernetes-validations", ()) if "message" in one]
    if checks:
        yield "\nThe API server also refuses:\n\n"
        yield from (f"- `{path.removeprefix('.')}` {message}\n" for path, message in zip(paths, checks, strict=True))


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        inner = field.get("items", {}) if field["type"] == "array" else field
        yield f"| `{path}.{name}` | {_type(field)} | {_meaning(field, inner, required=name in required)} |\n"
        yield from _fields(inner, f"{path}.{name}[]" if field["type"] == "array" else f"{path}.{name}")


def _type(field: Mapping[str, Any]) -> str:
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    return str(field.get("format") or field["type"])


def _meaning(field: Mapping[str, Any], inner: Mapping[str, Any], *, required: bool) -> str:
    parts = [field.get("description", "")]
    if "enum" in inner:
        parts.append(f"One of {', '.join(f'`{value}`' for value in inner['enum'])}.")
    if field.get("default"):
        parts.append(f"Default: {_value(field['default'])}.")
    limits = list(_limits(field))
    if inner is not field:
        limits += [f"each {limit}" for limit in _limits(inner)]
    if limits:
        parts.append(f"{', '.join(limits).capitalize()}.")
    checks = (check["message"] for check in inner.get("x-kubernetes-validations", ()) if "message" in check)
    parts += [f"{message[0].upper()}{message[1:]}." for message in checks]
    text = " ".join(filter(None, parts)).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
    return f"**Required.** {text}" if required else text


def _value(default: Any) -> str:
    if isinstance(default, list | tuple):
        return ", ".join(f"`{one}`" for one in default)
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _limits(field: Mapping[str, Any]) -> Iterator[str]:
    for name, text in _LIMITS.items():
        if name in field and (name, field[name]) not in _EVIDENT:
            yield text.format(f"{field[name]:,}")
