"""The Helm chart: the same templates that `transom manifests` fills in, printed in Go's template language.

Helm makes the namespace itself (`--create-namespace`), before any object of a chart: the Namespace is left out.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from transom.manifests.conditions import AllTests, AnyTest, EqualsValue, HasAnyOf, IsSet, NotTest, Test, ValuePlace
from transom.manifests.grants import NAME
from transom.manifests.helm_test import build_helm_test
from transom.manifests.install import DASHBOARD, Piece, add_common_metadata, iter_pieces
from transom.manifests.templates import (
    OWN,
    RELEASE,
    Conditional,
    ExtendedMapping,
    ItemsPlaceholder,
    JoinedText,
    ListText,
    MergedMapping,
    TextFile,
)
from transom.manifests.values import LABELS, RESERVED, Values, build_values_schema, to_json_data

_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*")
_RESERVED: Final = re.compile(r"(?i:y|n|yes|no|on|off|true|false|null)")
SERVICE: Final = "<service>"
"""A placeholder for the program that manages the release."""
_PLACEHOLDERS: Final = {
    OWN: "{{ $.Release.Namespace }}",
    RELEASE: "{{ $.Release.Name }}",
    SERVICE: "{{ $.Release.Service }}",
}
_MADE: Final = "# Made by scripts/reference from src/transom/manifests: change it there.\n"


def render_chart(version: str) -> dict[str, str]:
    """Render the files of the chart of a version, by their paths."""
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
        "Chart.yaml": _MADE + "".join(f"{line}\n" for line in _render_node(about)),
        "values.yaml": _MADE
        + "".join(
            f"{line}\n"
            for line in _render_default_values(to_json_data(Values()), build_values_schema(), build_values_schema()["$defs"])
        ),
        "values.schema.json": json.dumps(build_values_schema(), indent=2) + "\n",
        "templates/NOTES.txt": _NOTES,
        "templates/checks.yaml": _MADE + _CHECKS,
        DASHBOARD.path: DASHBOARD.text,
    }
    labels = {"helm.sh/chart": f"{NAME}-{version}", "app.kubernetes.io/managed-by": SERVICE}
    tests = [line for item in build_helm_test() for line in _render_document(add_common_metadata(item, labels))]
    files["templates/tests/check.yaml"] = _MADE + "".join(f"{line}\n" for line in tests)
    for piece in iter_pieces(labels):
        if documents := [obj for obj in piece.objects if not (isinstance(obj, Mapping) and obj["kind"] == "Namespace")]:
            name = f"templates/{_get_file_name(piece)}.yaml"
            files[name] = files.get(name, _MADE) + "".join(
                f"{line}\n" for document in documents for line in _render_document(document)
            )
    return files


_CHECKS: Final = """\
{{- if not (or .Values.image.registry .Values.global.imageRegistry) }}
{{- fail "image.registry: set the registry of Transom's image; without it, nodes pull an image from their default registry" }}
{{- end }}
{{- if not .Values.enabled }}
{{- fail "enabled: it is for the `condition` of a parent chart, and must be true here" }}
{{- end }}
{{- if and .Values.webhook.hostNetwork (has .Values.podSecurity (list "restricted" "baseline")) }}
{{- fail "webhook.hostNetwork: the namespace must permit it (Pod Security privileged); set podSecurity to privileged" }}
{{- end }}
{{- if eq (int .Values.webhook.port) (int .Values.webhook.metricsPort) }}
{{- fail "webhook.port: it must differ from webhook.metricsPort" }}
{{- end }}
{{- range $place, $labels := dict PLACES }}
{{- range $name := list NAMES }}
{{- if hasKey ($labels | default dict) $name }}
{{- fail (printf "%s: Transom sets label %s itself: remove it" $place $name) }}
{{- end }}
{{- end }}
{{- end }}
{{- if eq .Values.operator.serviceAccount.name .Values.webhook.serviceAccount.name }}
{{- fail "operator.serviceAccount.name: it must differ from webhook.serviceAccount.name" }}
{{- end }}
""".replace("PLACES", " ".join(f'"{place}" $.Values.{place}' for place in LABELS)).replace(
    "NAMES", " ".join(f'"{name}"' for name in RESERVED)
)
_NOTES: Final = """\
Transom runs in namespace {{ .Release.Namespace }} and has no settings yet.

1. Wait until the operator runs:

    kubectl rollout status deployment/transom --namespace {{ .Release.Namespace }}

2. Check the installation:

    helm test {{ .Release.Name }} --namespace {{ .Release.Namespace }}

3. Create an EgressProxy with the name `cluster`, and WindowsInstances in namespace {{ .Release.Namespace }}.
4. Show the state of every host and the next steps, and find common problems:

    transom status --namespace {{ .Release.Namespace }}
    transom doctor --namespace {{ .Release.Namespace }}

Install Transom once per cluster: its cluster roles and policies have fixed names.
{{- if and .Values.metrics.serviceMonitor (not .Values.metrics.labels) }}

The ServiceMonitors have no labels. If your Prometheus selects by label, as kube-prometheus-stack does, set `metrics.labels`.
{{- end }}

One Transom works in a cluster: an install in a second namespace takes the rights of this one.

`helm uninstall` keeps the CRDs, all settings, and the changes on hosts. To restore hosts before you uninstall, run:

    transom uninstall --context NAME --namespace {{ .Release.Namespace }}
"""


def _get_file_name(piece: Piece) -> str:
    return piece.parts[0].value


def _render_document(node: Any) -> Iterator[str]:
    tests = []
    while isinstance(node, Conditional):
        tests.append(node.test)
        node = node.then
    if isinstance(node, ItemsPlaceholder):
        yield from (f"{{{{- range {_render_value(node.value)} }}}}", "---", "{{ toJson . }}", "{{- end }}")
        return
    for test in tests:
        yield f"{{{{- if {_render_condition(test)} }}}}"
    yield "---"
    yield from _render_node(node)
    for _ in tests:
        yield "{{- end }}"


def _render_node(node: Any, indent: str = "") -> Iterator[str]:
    """Render the lines of a mapping or a list."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _render_conditional(value, indent, lambda value, name=name: _render_field(name, value, indent))
        return
    for item in node:
        yield from _render_conditional(item, indent, lambda item: _render_item(item, indent))


def _render_conditional(node: Any, indent: str, lines: Any) -> Iterator[str]:
    if not isinstance(node, Conditional):
        yield from lines(node)
        return
    yield f"{indent}{{{{- if {_render_condition(node.test)} }}}}"
    yield from _render_conditional(node.then, indent, lines)
    yield f"{indent}{{{{- end }}}}"


def _render_field(name: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, ExtendedMapping):
        yield f"{indent}{_render_scalar(name)}:"
        yield from _render_extended(value, indent + "  ")
    elif isinstance(value, Mapping | list | tuple) and value:
        yield f"{indent}{_render_scalar(name)}:"
        yield from _render_node(value, indent + "  " if isinstance(value, Mapping) else indent)
    else:
        yield f"{indent}{_render_scalar(name)}: {_render_scalar(value)}"


def _render_extended(node: ExtendedMapping, indent: str) -> Iterator[str]:
    """Yield the lines of a mapping and of the values that extend it."""
    yield from _render_node(node.fields, indent)
    values = " ".join(f"({_render_value(value)} | default dict)" for value in node.values)
    yield f"{indent}{{{{- range $name, $text := merge (dict) {values} }}}}"
    yield f"{indent}{{{{ toJson $name }}}}: {{{{ toJson $text }}}}"
    yield f"{indent}{{{{- end }}}}"


def _render_item(item: Any, indent: str) -> Iterator[str]:
    match item:
        case ItemsPlaceholder():
            yield f"{indent}{{{{- range {_render_value(item.value)} }}}}"
            shown = '(kindIs "string" . | ternary (dict "name" .) .)' if item.named else "."
            yield f"{indent}- {{{{ toJson {shown} }}}}"
            yield f"{indent}{{{{- end }}}}"
        case Mapping() if item:
            first, *others = _render_node(item, indent + "  ")
            if "{{-" in first:
                raise ValueError(f"the first field of an item must be there: {first}")
            yield f"{indent}- {first.strip()}"
            yield from others
        case _:
            yield f"{indent}- {_render_scalar(item)}"


def _render_scalar(node: Any) -> str:
    match node:
        case ValuePlace():
            return f"{{{{ toJson {_render_value(node)} }}}}"
        case JoinedText():
            return f"{{{{ print {' '.join(map(_render_part, node.parts))} | toJson }}}}"
        case TextFile():
            return f"{{{{ $.Files.Get {json.dumps(node.path)} | toJson }}}}"
        case MergedMapping():
            fields = " ".join(f"{json.dumps(name)} {json.dumps(value)}" for name, value in node.fields.items())
            return f"{{{{ merge (dict {fields}) {_render_value(node.value)} | toJson }}}}"
        case str() if _PLAIN.fullmatch(node) and not _RESERVED.fullmatch(node):
            return node
        case str():
            text = json.dumps(node, ensure_ascii=False).replace("{{", '{{ "{{" }}')
            for placeholder, expression in _PLACEHOLDERS.items():
                text = text.replace(placeholder, expression)
            return text
        case _:
            return json.dumps(node)


def _render_part(part: Any) -> str:
    match part:
        case ValuePlace():
            return _render_value(part)
        case ListText():
            return f'(join "," {_render_value(part.value)})'
        case JoinedText():
            return f"(print {' '.join(map(_render_part, part.parts))})"
        case Conditional():
            return f'(not {_render_test(part.test)} | ternary "" {_render_part(part.then)})'
        case str() if part == OWN:
            return "$.Release.Namespace"
        case str() if OWN in part:
            # `print` adds no space beside a string
            pieces = part.split(OWN)
            return f"(print {' $.Release.Namespace '.join(map(json.dumps, pieces))})"
        case _:
            return json.dumps(part)


def _render_value(value: ValuePlace) -> str:
    return f"$.Values.{value.path}"


def _render_test(test: Test) -> str:
    """Render an expression that is true, or not empty, if a test is true."""
    match test:
        case IsSet():
            return _render_value(test.value)
        case EqualsValue():
            # a number of a values file is a float64, one of --set an int64, and `eq` compares equal types alone
            number = isinstance(test.text, int)
            return (
                f"(eq {f'(int {_render_value(test.value)})' if number else _render_value(test.value)} {json.dumps(test.text)})"
            )
        case HasAnyOf():
            return _join_tests("or", [f"(has {json.dumps(name)} {_render_value(test.value)})" for name in test.names])
        case AnyTest():
            return _join_tests("or", list(map(_render_test, test.tests)))
        case AllTests():
            return _join_tests("and", list(map(_render_test, test.tests)))
        case NotTest():
            return f"(not {_render_test(test.test)})"


def _render_condition(test: Test) -> str:
    text = _render_test(test)
    return text[1:-1] if text.startswith("(") else text


def _join_tests(operator: str, tests: list[str]) -> str:
    return tests[0] if len(tests) == 1 else f"({operator} {' '.join(tests)})"


def _render_default_values(
    values: Mapping[str, Any], node: Mapping[str, Any], known: Mapping[str, Any], indent: str = ""
) -> Iterator[str]:
    """Render the default values, each below its description in the schema."""
    for name, value in values.items():
        field = node["properties"][name]
        field = {**known[field["$ref"].rpartition("/")[2]], **field} if "$ref" in field else field
        if "description" in field:
            yield f"{indent}# {field['description']}"
        if isinstance(value, Mapping) and "properties" in field:
            yield f"{indent}{name}:"
            yield from _render_default_values(value, field, known, indent + "  ")
        else:
            yield from _render_field(name, value, indent)
