"""docs/how-to/machinesets.md against what OpenShift publishes: the definition of a MachineSet, the types of each provider."""

import re
from typing import Any

import pytest
import yaml
from lab.control_plane import ControlPlane
from lab.golang import fetch_module_source
from tests.support.repository import DOCS

from lab import openshift

BLOCKS: list[dict[str, Any]] = [
    yaml.safe_load(block)
    for block in re.findall(r"```yaml\n(.*?)```", (DOCS / "how-to" / "machinesets.md").read_text("utf-8"), re.DOTALL)
]
SET, *PROVIDERS = BLOCKS
GO_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
GO_FIELD = re.compile(r'^\s*\w+\s+([*\[\]\w.]+)\s+`.*?json:"(\w+)', re.MULTILINE)
ELSEWHERE = {"LocalObjectReference": {"name": "string"}, "SecretReference": {"name": "string", "namespace": "string"}}
"""Types of k8s.io/api/core/v1."""


def types() -> dict[str, dict[str, str]]:
    """Fields of each struct of machine/v1beta1 as JSON names them, with their Go types."""
    texts = [
        path.read_text()
        for path in (fetch_module_source(openshift.MODULE, "github.com/openshift/api") / "machine/v1beta1").glob("types_*.go")
    ]
    found = {
        name: {field: of.rpartition(".")[2].lstrip("*[]") for of, field in GO_FIELD.findall(body)}
        for text in texts
        for name, body in GO_STRUCT.findall(text)
    }
    return found | ELSEWHERE


def unknown(value: Any, type_: str, known: dict[str, dict[str, str]], path: str) -> list[str]:
    """Fields that a struct has not."""
    if isinstance(value, list):
        return [entry for item in value for entry in unknown(item, type_, known, path)]
    if not isinstance(value, dict):
        return []
    assert type_ in known, f"{path}: {type_}"
    wrong = [f"{path}.{key}" for key in value if key not in known[type_]]
    return wrong + [
        item
        for key in value.keys() & known[type_].keys()
        for item in unknown(value[key], known[type_][key], known, f"{path}.{key}")
    ]


@pytest.mark.lab
@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda item: str(item["kind"]))
def test_each_field_of_a_provider_is_one_of_openshifts_types(provider: dict[str, Any]) -> None:
    kind, known = provider["kind"], types()
    fields = {key: value for key, value in provider.items() if key not in ("apiVersion", "kind")}
    assert unknown(fields, kind, known, kind) == []
    assert unknown(fields | {"nonsense": 1, "userDataSecret": {"nam": "x"}}, kind, known, kind) == [
        f"{kind}.nonsense",
        f"{kind}.userDataSecret.nam",
    ]
    assert fields["userDataSecret"] == {"name": "windows-user-data"}


@pytest.mark.lab
def test_an_api_server_takes_the_machine_sets(control_plane: ControlPlane) -> None:
    path = "/apis/machine.openshift.io/v1beta1/namespaces/default/machinesets?dryRun=All&fieldValidation=Strict"
    openshift.define(control_plane, (openshift.MACHINE_SETS,))
    try:
        for provider in PROVIDERS:
            made = yaml.safe_load(yaml.safe_dump(SET).replace("INFRA", "prod-x7k2p"))
            made["metadata"]["namespace"] = "default"
            made["spec"]["template"]["spec"]["providerSpec"]["value"] = provider
            control_plane.request("POST", path, made)
    finally:
        openshift.forget(control_plane, (openshift.MACHINE_SETS,))
