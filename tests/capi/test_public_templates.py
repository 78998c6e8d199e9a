"""Clusters as public templates make them: every kind is edited, printed or named, and what is printed exists.

`public_templates.yaml` has, of each template, its kinds, versions, names and references, and the fields that Transom reads.
"""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.bundles import certificate, config_map
from typer.testing import CliRunner

from transom.cli.program import build_program

TABLE: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix("").with_name("public_templates.yaml").read_text())
NS = "org-a"
SETTINGS: dict[str, Any] = {
    "apiVersion": "transom.dev/v1alpha1",
    "kind": "EgressProxy",
    "metadata": {"name": "cluster"},
    "spec": {
        "httpProxy": "http://proxy.corp.example:3128",
        "httpsProxy": "http://proxy.corp.example:3128",
        "noProxy": ".corp.example",
        "trustedCA": {"name": "corp-ca"},
        "networks": {
            "serviceNetwork": ["10.96.0.0/12"],
            "podNetwork": ["10.244.0.0/16"],
            "machineNetwork": ["10.0.0.0/8"],
            "internalAPIHost": "api.corp.example",
        },
        "clusterSelector": {},
    },
}


def write(directory: Path, objects: list[dict[str, Any]]) -> str:
    """Write the settings, and objects beside them."""
    directory.mkdir(exist_ok=True)
    bundle = config_map("corp-ca", {"ca-bundle.crt": certificate("corp")})
    values = [{**item, "metadata": {"namespace": NS} | item["metadata"]} for item in objects]
    (directory / "all.yaml").write_text(yaml.safe_dump_all([SETTINGS, bundle, *values]))
    return str(directory)


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the directory of each template, with the settings beside it."""
    root = tmp_path_factory.mktemp("templates")
    return {name: write(root / name, row["objects"]) for name, row in TABLE.items()}


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(build_program(), list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def list_findings(directory: str) -> list[str]:
    """Return object and field of each finding about machines."""
    code, output, errors = run("validate", "-f", directory, "-o", "json")
    assert code == 0, errors
    items = [item for item in yaml.safe_load(output) if not item["object"].startswith("ConfigMap/")]
    return sorted(f"{item['object']} {item['field']}" for item in items if not item["field"].startswith(OTHER_FIELDS))


OTHER_FIELDS = ("spec.clusterNetwork", "spec.controlPlaneEndpoint")
"""What a template leaves to the cluster's first machine."""


def list_entries(directory: str) -> tuple[int, list[str], str]:
    """Return version, kind, namespace and name of what is printed for templates in Git."""
    code, output, errors = run("render", "-f", directory, "--machine-templates", "entries")
    items = [item for item in yaml.safe_load_all(output) if item]
    return code, sorted(map(name_object, items)), errors


def name_object(item: dict[str, Any]) -> str:
    return f"{item['apiVersion']} {item['kind']} {item['metadata']['name']}"


def list_selectors(directory: str) -> tuple[int, list[str], str]:
    """Return what the definitions of the patches of ClusterClasses select."""
    code, output, errors = run("render", "-f", directory, "--machine-templates", "cluster-class")
    items = [item for item in yaml.safe_load_all(output) if item]
    selectors = [part["selector"] for item in items for patch in item["spec"]["patches"] for part in patch["definitions"]]
    return (
        code,
        sorted(f"{item['apiVersion']} {item['kind']} {show_match(item['matchResources'])}" for item in selectors),
        errors,
    )


def show_match(resources: dict[str, Any]) -> str:
    if "controlPlane" in resources:
        return "controlPlane"
    ((field, value),) = resources.items()
    return f"{field} {','.join(value['names'])}"


@pytest.mark.parametrize("name", TABLE)
def test_each_kind_is_named_or_printed(name: str, directories: dict[str, str]) -> None:
    row = TABLE[name]
    assert list_findings(directories[name]) == row.get("findings", [])
    code, entries, errors = list_entries(directories[name])
    assert (code, entries) == (row.get("code", 0), row.get("entries", [])), errors
    code, selectors, errors = list_selectors(directories[name])
    assert (code, selectors) == (row.get("code", 0), row.get("selectors", [])), errors


@pytest.mark.parametrize("name", TABLE)
def test_what_is_printed_is_in_the_template(name: str, directories: dict[str, str]) -> None:
    existing = {name_object(item) for item in TABLE[name]["objects"]}
    assert set(list_entries(directories[name])[1]) <= existing
    if TABLE[name].get("code", 0) == 0 and not TABLE[name].get("entries"):
        # nothing is left out without a word
        assert TABLE[name].get("selectors")


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.get("findings")])
def test_doctor_finds_what_validate_finds(name: str, directories: dict[str, str]) -> None:
    code, output, _ = run("doctor", "-f", directories[name])
    assert code == 1
    assert all(finding.partition(" ")[0] in output for finding in TABLE[name]["findings"])


def merge(value: Any, part: Any) -> Any:
    """Put a printed part into an object as a person does: lists are extended."""
    if isinstance(value, dict) and isinstance(part, dict):
        return value | {key: merge(value.get(key), below) for key, below in part.items()}
    return [*value, *part] if isinstance(value, list) and isinstance(part, list) else part


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.get("entries")])
def test_templates_with_the_entries_are_complete(name: str, directories: dict[str, str], tmp_path: Path) -> None:
    _, output, _ = run("render", "-f", directories[name], "--machine-templates", "entries")
    objects = {name_object(item): item for item in TABLE[name]["objects"]}
    for part in filter(None, yaml.safe_load_all(output)):
        whole = objects[name_object(part)]
        objects[name_object(part)] = {**whole, "spec": merge(whole.get("spec", {}), part["spec"])}
    remaining = list_findings(write(tmp_path / name, list(objects.values())))
    # what a person has to judge
    expected = [item for item in TABLE[name]["findings"] if item.endswith(("cloudInit", "configRef.kind", "clusterName"))]
    assert [item for item in remaining if not item.endswith("dnsDomain")] == expected


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.get("selectors")])
def test_patch_of_a_class_fits_its_templates(name: str, directories: dict[str, str], tmp_path: Path) -> None:
    """The operations apply to each template that a selector matches, and the class is complete with them."""
    _, output, _ = run("render", "-f", directories[name], "--machine-templates", "cluster-class")
    (printed,) = filter(None, yaml.safe_load_all(output))
    objects = {name_object(item): item for item in TABLE[name]["objects"]}
    for definition in printed["spec"]["patches"][0]["definitions"]:
        selector = definition["selector"]
        kind = f"{selector['apiVersion']} {selector['kind']} "
        templates = [item for key, item in objects.items() if key.startswith(kind)]
        assert templates, kind
        for template in templates:
            result = yaml.safe_load(yaml.safe_dump(template))
            for path in TABLE[name].get("patched", []):
                with contextlib.suppress(KeyError):
                    add(result, {"path": path, "value": []})
            for operation in definition["jsonPatches"]:
                add(result, operation)
            paths = {file["path"] for file in find_files(result)}
            assert any(path.endswith(("http-proxy.conf", "proxy.reg")) for path in paths)
    whole = objects[name_object(printed)]
    changed = {**whole, "spec": merge(whole["spec"], printed["spec"])}
    remaining = list_findings(write(tmp_path / name, [*(item for item in objects.values() if item is not whole), changed]))
    assert remaining == [item for item in TABLE[name]["findings"] if not item.endswith("spec.patches")]


def add(value: Any, operation: dict[str, Any]) -> None:
    """Do an `add` of RFC 6902; fails as Cluster API does if the list is missing."""
    *path, last = operation["path"].strip("/").split("/")
    for key in path:
        value = value[key]
    content = yaml.safe_load(operation["valueFrom"]["template"]) if "valueFrom" in operation else operation["value"]
    if isinstance(value, list):
        value.insert(len(value) if last == "-" else int(last), content)
    else:
        value[last] = content


def find_files(template: dict[str, Any]) -> list[dict[str, Any]]:
    spec = template["spec"]["template"]["spec"]
    files: list[dict[str, Any]] = spec.get("kubeadmConfigSpec", spec)["files"]
    return files
