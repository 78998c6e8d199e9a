"""The Helm chart: the same templates that `transom manifests` fills in, printed in Go's template language.

Helm makes the namespace itself (`--create-namespace`), before any object of a chart: the Namespace is left out.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from transom.manifests.conditions import AnyOf, Both, Either, Is, IsGiven, No, Test, ValuePlace
from transom.manifests.grants import NAME
from transom.manifests.install import Piece, pieces
from transom.manifests.templates import OWN, Conditional, Joined, Listed, Merged, Spread
from transom.manifests.values import Values, plain, schema

_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*")
_RESERVED: Final = re.compile(r"(?i:y|n|yes|no|on|off|true|false|null)")
_NAMESPACE: Final = "{{ .Release.Namespace }}"
_MADE: Final = "# Made by scripts/reference from src/transom/manifests: change it there.\n"


def chart(version: str) -> dict[str, str]:
    """The files of the chart of a version, by their paths."""
    about = {
        "apiVersion": "v2",
        "name": NAME,
        "description": "Egress proxy settings and trusted CAs for clusters with Windows worker nodes",
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": ">=1.30.0-0",
        "keywords": ["kubernetes", "windows", "proxy", "operator"],
    }
    files = {
        "Chart.yaml": _MADE + "".join(f"{line}\n" for line in _lines(about)),
        "values.yaml": _MADE + "".join(f"{line}\n" for line in _commented(plain(Values()), schema(), schema()["$defs"])),
        "values.schema.json": json.dumps(schema(), indent=2) + "\n",
        "templates/NOTES.txt": _NOTES,
        "templates/image.yaml": _MADE + _IMAGE,
    }
    for piece in pieces():
        if documents := [one for one in piece.objects if not (isinstance(one, Mapping) and one["kind"] == "Namespace")]:
            name = f"templates/{_file(piece)}.yaml"
            files[name] = files.get(name, _MADE) + "".join(f"{line}\n" for one in documents for line in _document(one))
    return files


_IMAGE: Final = """\
{{- if not .Values.image.registry }}
{{- fail "image.registry: name the registry that has Transom's image; without one nodes run what another has by that name" }}
{{- end }}
"""
_NOTES: Final = """\
Transom runs in namespace {{ .Release.Namespace }}, and has no settings yet: make an EgressProxy that is named `cluster`,
and WindowsInstances in that namespace.

`helm uninstall` leaves the definitions with all settings and hosts as they are. Give hosts back first, if you want that:

    kubectl annotate namespace {{ .Release.Namespace }} transom.dev/uninstall=true
    kubectl delete windowsinstances --all -n {{ .Release.Namespace }}
    kubectl delete egressproxies --all
"""


def _file(piece: Piece) -> str:
    return piece.parts[0].value


def _document(node: Any) -> Iterator[str]:
    tests = []
    while isinstance(node, Conditional):
        tests.append(node.test)
        node = node.then
    for test in tests:
        yield f"{{{{- if {_condition(test)} }}}}"
    yield "---"
    yield from _lines(node)
    for _ in tests:
        yield "{{- end }}"


def _lines(node: Any, indent: str = "") -> Iterator[str]:
    """The lines of a mapping or a list."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _tested(value, indent, lambda value, name=name: _field(name, value, indent))
        return
    for item in node:
        yield from _tested(item, indent, lambda item: _item(item, indent))


def _tested(node: Any, indent: str, lines: Any) -> Iterator[str]:
    if not isinstance(node, Conditional):
        yield from lines(node)
        return
    yield f"{indent}{{{{- if {_condition(node.test)} }}}}"
    yield from _tested(node.then, indent, lines)
    yield f"{indent}{{{{- end }}}}"


def _field(name: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield f"{indent}{_scalar(name)}:"
        yield from _lines(value, indent + "  " if isinstance(value, Mapping) else indent)
    else:
        yield f"{indent}{_scalar(name)}: {_scalar(value)}"


def _item(item: Any, indent: str) -> Iterator[str]:
    match item:
        case Spread():
            yield f"{indent}{{{{- range {_value(item.value)} }}}}"
            yield f"{indent}- {{{{ toJson . }}}}"
            yield f"{indent}{{{{- end }}}}"
        case Mapping() if item:
            first, *others = _lines(item, indent + "  ")
            if "{{-" in first:
                raise ValueError(f"the first field of an item must be there: {first}")
            yield f"{indent}- {first.strip()}"
            yield from others
        case _:
            yield f"{indent}- {_scalar(item)}"


def _scalar(node: Any) -> str:
    match node:
        case ValuePlace():
            return f"{{{{ toJson {_value(node)} }}}}"
        case Joined():
            return f"{{{{ print {' '.join(map(_part, node.parts))} | toJson }}}}"
        case Merged():
            fields = " ".join(f"{json.dumps(name)} {json.dumps(value)}" for name, value in node.fields.items())
            return f"{{{{ merge (dict {fields}) {_value(node.value)} | toJson }}}}"
        case str() if _PLAIN.fullmatch(node) and not _RESERVED.fullmatch(node):
            return node
        case str():
            return json.dumps(node, ensure_ascii=False).replace("{{", '{{ "{{" }}').replace(OWN, _NAMESPACE)
        case _:
            return json.dumps(node)


def _part(part: Any) -> str:
    match part:
        case ValuePlace():
            return _value(part)
        case Listed():
            return f'(join "," {_value(part.value)})'
        case Joined():
            return f"(print {' '.join(map(_part, part.parts))})"
        case Conditional():
            return f'(not {_test(part.test)} | ternary "" {_part(part.then)})'
        case _:
            return json.dumps(part)


def _value(value: ValuePlace) -> str:
    return f"$.Values.{value.path}"


def _test(test: Test) -> str:
    """An expression that is true, or not empty, where a test holds."""
    match test:
        case IsGiven():
            return _value(test.value)
        case Is():
            return f"(eq {_value(test.value)} {json.dumps(test.text)})"
        case AnyOf():
            return _several("or", [f"(has {json.dumps(name)} {_value(test.value)})" for name in test.names])
        case Either():
            return _several("or", list(map(_test, test.tests)))
        case Both():
            return _several("and", list(map(_test, test.tests)))
        case No():
            return f"(not {_test(test.test)})"


def _condition(test: Test) -> str:
    text = _test(test)
    return text[1:-1] if text.startswith("(") else text


def _several(operator: str, tests: list[str]) -> str:
    return tests[0] if len(tests) == 1 else f"({operator} {' '.join(tests)})"


def _commented(values: Mapping[str, Any], node: Mapping[str, Any], known: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """The default values, each under what the schema says of it."""
    for name, value in values.items():
        field = node["properties"][name]
        field = {**known[field["$ref"].rpartition("/")[2]], **field} if "$ref" in field else field
        if "description" in field:
            yield f"{indent}# {field['description']}"
        if isinstance(value, Mapping) and "properties" in field:
            yield f"{indent}{name}:"
            yield from _commented(value, field, known, indent + "  ")
        else:
            yield from _field(name, value, indent)
