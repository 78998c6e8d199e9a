"""`helm template`, `kustomize build` and `transom manifests` make the same objects of the same values."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.control_plane import ControlPlane
from tests.manifests.value_sets import VALUE_SETS
from tests.support.forked import run
from tests.support.repository import DOCS, ROOT

from lab import build
from transom import __version__
from transom.manifests.chart import chart
from transom.manifests.values import Values, plain, schema

CHART = ROOT / "charts" / "transom"
BASE = ROOT / "kustomize"
NAMESPACE = "egress-system"
Objects = dict[tuple[str, str, str], dict[str, Any]]


def by_name(text: str) -> Objects:
    found: Objects = {}
    for one in yaml.load_all(text, yaml.CSafeLoader):
        if one:
            name = (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"])
            assert name not in found
            found[name] = one
    return found


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [build.program(build.HELM), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"HOME": "/nonexistent"})


def written(directory: Path, values: Mapping[str, Any]) -> Path:
    file = directory / "values.yaml"
    file.write_text(json.dumps(values), "utf-8")
    return file


def manifests(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`transom manifests` of values alone, with a registry or without."""
    environment = {name: value for name, value in os.environ.items() if name != "TRANSOM_IMAGE"}
    return run("manifests", "--any-registry", *arguments, environment=environment)


def test_the_files_are_those_of_the_templates() -> None:
    """`scripts/reference` writes them."""
    kept = {str(path.relative_to(CHART)): path.read_text("utf-8") for path in CHART.rglob("*") if path.is_file()}
    assert kept == chart(__version__)
    assert json.loads((DOCS / "schemas" / "values.json").read_text("utf-8")) == schema()


def test_the_kustomize_base_is_what_the_defaults_make(tmp_path: Path) -> None:
    image = f"registry.invalid/transom:{__version__}"
    assert manifests("--image", image, "--output-dir", str(tmp_path)).returncode == 0
    made = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    assert {path.name: path.read_text("utf-8") for path in BASE.iterdir()} == made


def paths(values: Mapping[str, Any], before: str = "") -> set[str]:
    """Of all values that are no mapping with fields of ours."""
    found: set[str] = set()
    for name, value in values.items():
        ours = isinstance(value, Mapping) and name not in ("nodeSelector", "volume", "resources", "issuer")
        found |= paths(value, f"{before}{name}.") if ours else {before + name}
    return found


def test_each_value_is_tried() -> None:
    assert {path for values in VALUE_SETS.values() for path in paths(values)} == paths(plain(Values()))


@pytest.mark.lab
@pytest.mark.parametrize("name", VALUE_SETS)
def test_all_three_make_the_same_objects(name: str, tmp_path: Path) -> None:
    values = written(tmp_path, {"image": {"registry": "registry.example"}} | VALUE_SETS[name])
    printed = manifests("--values", str(values), "--namespace", NAMESPACE)
    assert (printed.returncode, printed.stderr) == (0, "")
    made = by_name(printed.stdout)

    templated = helm("template", "transom", CHART, "--namespace", NAMESPACE, "--values", values)
    assert (templated.returncode, templated.stderr) == (0, "")
    # helm makes the namespace before any object of a chart
    assert by_name(templated.stdout) == {name: one for name, one in made.items() if name[0] != "Namespace"}

    base = tmp_path / "base"
    assert manifests("--values", str(values), "--namespace", NAMESPACE, "--output-dir", str(base)).returncode == 0
    built = subprocess.run([build.program(build.KUSTOMIZE), "build", base], capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    assert by_name(built.stdout) == made


WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]] = {
    "unknown": ({"replicas": 1}, ("additional properties 'replicas' not allowed",), ("unknown field `replicas`",)),
    "type": ({"operator": {"replicas": "two"}}, ("/operator/replicas", "want integer"), ("`int`", "$.operator.replicas")),
    "choice": (
        {"webhook": {"failurePolicy": "Refuse"}},
        ("/webhook/failurePolicy", "'Fail', 'Ignore'"),
        ("Invalid enum value 'Refuse'", "$.webhook.failurePolicy"),
    ),
    "controller": (
        {"controllers": ["window"]},
        ("/controllers/0", "'windows'"),
        ("no controller 'window'; there are egress;",),
    ),
    "digest": ({"image": {"digest": "sha256:1"}}, ("/image/digest", "does not match pattern"), ("$.image.digest",)),
    "two payloads": (
        {"payload": {"image": "a/b", "volume": {"emptyDir": {}}}},
        ("/payload",),
        ("`payload` has image and volume: give one of them",),
    ),
}


@pytest.mark.lab
@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_refused_with_a_clear_word(name: str, tmp_path: Path) -> None:
    given, of_helm, of_transom = WRONG[name]
    values = written(tmp_path, given)
    refused = helm("template", "transom", CHART, "--values", values)
    assert refused.returncode != 0
    assert [word for word in of_helm if word not in refused.stderr] == [], refused.stderr
    printed = manifests("--values", str(values))
    assert (printed.returncode, printed.stdout) == (2, "")
    assert [word for word in (f"--values {values}: ", *of_transom) if word not in printed.stderr] == [], printed.stderr


@pytest.mark.lab
def test_the_chart_takes_no_image_of_who_knows_whose() -> None:
    refused = helm("template", "transom", CHART)
    assert refused.returncode != 0
    assert "image.registry: name the registry that has Transom's image" in refused.stderr


@pytest.mark.lab
def test_the_chart_is_as_helm_wants_it(tmp_path: Path) -> None:
    for number, values in enumerate((VALUE_SETS["default"], VALUE_SETS["everything"])):
        (tmp_path / str(number)).mkdir()
        done = helm("lint", "--strict", CHART, "--values", written(tmp_path / str(number), values))
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def schemas(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A JSON Schema of each kind that the API server has, as kubeconform looks for them; made of what the server publishes.

    A field that a kind does not have is an error. An IntOrString and a Quantity are told as texts, and may be numbers.
    """
    directory = tmp_path_factory.mktemp("schemas")
    published = control_plane.request("GET", "/openapi/v2", None)
    definitions = json.loads(published)["definitions"]
    for name, one in definitions.items():
        if "properties" in one:
            one.setdefault("additionalProperties", False)
        if one.get("format") == "int-or-string" or name.endswith(".Quantity"):
            one["type"] = ["string", "number"]
    (directory / "definitions.json").write_text(json.dumps({"definitions": definitions}), "utf-8")
    for name, one in definitions.items():
        for kind in one.get("x-kubernetes-group-version-kind", ()):
            group = kind["group"].partition(".")[0]
            file = "-".join(filter(None, (kind["kind"].lower(), group, kind["version"]))) + ".json"
            reference = {"$ref": f"definitions.json#/definitions/{name}"}
            (directory / file).write_text(json.dumps(reference), "utf-8")
    return directory


OF_OTHERS = "ServiceMonitor,PrometheusRule,Certificate"
"""Kinds of the Prometheus operator and of cert-manager, which the server here does not have."""


@pytest.mark.lab
def test_kubeconform_passes_all_objects(schemas: Path, tmp_path: Path) -> None:
    files = []
    for name, values in VALUE_SETS.items():
        files.append(tmp_path / f"{name}.yaml")
        (tmp_path / name).mkdir()
        made = manifests("--values", str(written(tmp_path / name, values)))
        files[-1].write_text(made.stdout, "utf-8")
    (tmp_path / "wrong.yaml").write_text(files[0].read_text("utf-8").replace("\n  replicas: 2\n", "\n  replicaz: 2\n"), "utf-8")

    def found(*files: Path) -> tuple[int, dict[str, int], list[str]]:
        location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
        options = ("-strict", "-summary", "-output", "json", "-skip", OF_OTHERS, "-schema-location", location)
        done = subprocess.run([build.program(build.KUBECONFORM), *options, *files], capture_output=True, text=True, check=False)
        told = json.loads(done.stdout)
        return done.returncode, told["summary"], [f"{one['kind']} {one['name']}: {one['msg']}" for one in told["resources"]]

    code, summary, said = found(*files)
    assert (code, summary["invalid"], summary["errors"]) == (0, 0, 0), said
    assert summary["valid"] > 200
    of_others = tuple(f"kind: {kind}\n" for kind in OF_OTHERS.split(","))
    assert summary["skipped"] == sum(file.read_text("utf-8").count(kind) for file in files for kind in of_others) > 0
    code, _, said = found(tmp_path / "wrong.yaml")
    assert code == 1
    assert said
    assert [one for one in said if not (one.startswith("Deployment ") and "replicaz" in one)] == []
