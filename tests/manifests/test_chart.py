"""`helm template`, `kustomize build` and `transom manifests` make the same objects of the same values."""

import inspect
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
import yaml
from lab.control_plane import ControlPlane
from tests.manifests.value_sets import VALUE_SETS
from tests.support.pages import run_by
from tests.support.process import run
from tests.support.repository import DOCS, ROOT
from website.namespace_component import render_component

from lab import build
from transom import __version__
from transom.cli.program import build_program
from transom.manifests.chart import render_chart
from transom.manifests.values import Resources, Values, Workload, build_values_schema, to_json_data

CHART = ROOT / "charts" / "transom"
BASE = ROOT / "kustomize"
NAMESPACE = "egress-system"
Objects = dict[tuple[str, str, str], dict[str, Any]]


def by_name(text: str) -> Objects:
    found: Objects = {}
    for item in yaml.load_all(text, yaml.CSafeLoader):
        if item:
            name = (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
            assert name not in found
            found[name] = item
    return found


def without_chart(objects: Objects) -> Objects:
    """Return the objects without what only a chart has: the labels of its release, and its test."""
    for item in objects.values():
        labels = item["metadata"].get("labels", {})
        if "helm.sh/chart" in labels:
            assert (labels.pop("helm.sh/chart"), labels.pop("app.kubernetes.io/managed-by")) == (
                f"transom-{__version__}",
                "Helm",
            )
    return {name: obj for name, obj in objects.items() if "helm.sh/hook" not in obj["metadata"].get("annotations", {})}


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [build.build_program(build.HELM), *arguments]
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
    assert kept == render_chart(__version__)
    assert json.loads((DOCS / "schemas" / "values.json").read_text("utf-8")) == build_values_schema()


def test_the_kustomize_base_is_what_the_defaults_make(tmp_path: Path) -> None:
    image = f"registry.invalid/transom:{__version__}"
    assert manifests("--image", image, "--output-dir", str(tmp_path)).returncode == 0
    made = {path.name: path.read_text("utf-8") for path in tmp_path.glob("[!.]*")}
    assert {path.name: path.read_text("utf-8") for path in BASE.iterdir()} == made


def overlay(directory: Path, namespace: str) -> str:
    """Return what kustomize makes of the overlay of docs/install.md, for a namespace."""
    (block,) = run_by("tests/manifests/test_chart.py::test_an_overlay_with_another_namespace")
    *lines, apply = block.lines
    assert apply == "kubectl apply -k ."
    commands = "\n".join(lines).replace("egress-system", namespace)
    for name in ("kustomize", "kustomize-namespace"):
        shutil.copytree(ROOT / name, directory / name)
    subprocess.run(["bash", "-ec", commands], cwd=directory, check=True)
    built = subprocess.run(
        [build.build_program(build.KUSTOMIZE), "build", directory], capture_output=True, text=True, check=False
    )
    assert (built.returncode, built.stderr) == (0, "")
    return built.stdout


@pytest.mark.lab
@pytest.mark.parametrize("namespace", [NAMESPACE, "transom", "kube-system-transom-system"])
def test_an_overlay_with_another_namespace(namespace: str, tmp_path: Path) -> None:
    made = manifests("--namespace", namespace, "--image", f"registry.invalid/transom:{__version__}")
    assert by_name(overlay(tmp_path, namespace)) == by_name(made.stdout)


def test_the_component_is_made_of_the_base() -> None:
    assert (ROOT / "kustomize-namespace" / "kustomization.yaml").read_text("utf-8") == render_component()


def paths(values: Mapping[str, Any], type_: type[msgspec.Struct] = Values, before: str = "") -> set[str]:
    """Return the places of all values of these types; a mapping that is no struct of ours is one value."""
    types = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
    found: set[str] = set()
    for name, value in values.items():
        of = types.get(name)
        ours = isinstance(of, type) and issubclass(of, msgspec.Struct) and of is not Resources
        found |= paths(value, of, f"{before}{name}.") if ours else {before + name}
    return found


def test_descriptions_name_only_options_of_both_commands() -> None:
    """The operator and the admission server share the values' struct."""
    program = typer.main.get_command(build_program())
    options = {
        name: {word for option in program.commands[name].params for word in option.opts}  # type: ignore[attr-defined]  # a group
        for name in ("run", "webhook")
    }
    named = set(
        re.findall(r"--[a-z-]+", json.dumps(inspect.get_annotations(Workload)["arguments"].__metadata__[0].description))
    )
    assert named
    assert named <= options["run"] & options["webhook"]


def test_each_value_is_tried() -> None:
    tried = {path for values in VALUE_SETS.values() for path in paths(values)}
    # what another chart reads of the values that charts share
    assert tried - {"global.storageClass"} == paths(to_json_data(Values()))


def test_the_page_has_each_value_with_the_default_of_the_chart() -> None:
    chart_values = yaml.load((CHART / "values.yaml").read_text("utf-8"), yaml.CSafeLoader)
    rows = [row.split(" | ") for row in (DOCS / "values.md").read_text("utf-8").splitlines() if row.startswith("| `")]
    shown = {row[0].strip("|` "): json.loads(row[2].strip("`")) for row in rows}
    places = {*paths(to_json_data(Values()))} - {"operator.resources", "webhook.resources"}
    places |= {f"{of}.resources.{field}" for of in ("operator", "webhook") for field in ("requests", "limits")}
    assert set(shown) == places
    for place, default in shown.items():
        value = chart_values
        for name in place.split("."):
            value = value[name]
        assert default == value, place


@pytest.mark.lab
@pytest.mark.parametrize(
    ("values", "image"),
    [
        ({"transom": {"image": {"registry": "registry.example"}}}, "registry.example/transom"),
        ({"global": {"imageRegistry": "registry.example/all", "storageClass": "fast"}}, "registry.example/all/transom"),
        (
            {"transom": {"enabled": True, "image": {"registry": "a.example"}}, "global": {"imageRegistry": "b"}},
            "a.example/transom",
        ),
        ({"transom": {"enabled": False}}, None),
    ],
)
def test_as_a_chart_of_a_parent_chart(values: dict[str, Any], image: str | None, tmp_path: Path) -> None:
    """The parent chart has a condition, and values that all its charts share."""
    dependency = {"name": "transom", "version": __version__, "condition": "transom.enabled"}
    about = {"apiVersion": "v2", "name": "parent", "version": "1.0.0", "dependencies": [dependency]}
    parent = tmp_path / "parent"
    shutil.copytree(CHART, parent / "charts" / "transom")
    (parent / "Chart.yaml").write_text(json.dumps(about), "utf-8")
    shared = {"imagePullSecrets": ["key"], **values.get("global", {})}
    made = helm(
        "template", "parent", parent, "--namespace", NAMESPACE, "--values", written(tmp_path, {**values, "global": shared})
    )
    assert made.returncode == 0, made.stderr
    deployments = [item for item in by_name(made.stdout).values() if item["kind"] == "Deployment"]
    specs = [deployment["spec"]["template"]["spec"] for deployment in deployments]
    images = {spec["containers"][0]["image"] for spec in specs}
    assert images == ({f"{image}:{__version__}"} if image else set())
    assert all(spec["imagePullSecrets"] == [{"name": "key"}] for spec in specs)


EXPECTED: dict[str, tuple[dict[str, Any], str, tuple[str | int, ...], Any]] = {
    "monitor labels": (
        {"metrics": {"serviceMonitor": True, "labels": {"release": "prometheus"}}},
        "ServiceMonitor",
        ("metadata", "labels", "release"),
        "prometheus",
    ),
    "rule labels": (
        {"metrics": {"alerts": True, "labels": {"release": "prometheus"}}},
        "PrometheusRule",
        ("metadata", "labels", "release"),
        "prometheus",
    ),
    "runbook": (
        {"metrics": {"alerts": True, "runbookUrl": "https://docs.example/runbooks"}},
        "PrometheusRule",
        ("spec", "groups", 0, "rules", 0, "annotations", "runbook_url"),
        "https://docs.example/runbooks/TransomNoLeader.html",
    ),
    "dashboard": ({"metrics": {"dashboard": True}}, "ConfigMap", ("metadata", "labels", "grafana_dashboard"), "1"),
    "host network": (
        {"webhook": {"hostNetwork": True, "port": 10250}, "podSecurity": ""},
        "Deployment transom-webhook",
        ("spec", "template", "spec", "containers", 0, "ports", 0, "containerPort"),
        10250,
    ),
    "time limit": (
        {"webhook": {"timeoutSeconds": 3}},
        "Deployment transom-webhook",
        ("spec", "template", "spec", "containers", 0, "args", 4),
        "--timeout=3",
    ),
    "name server": (
        {"webhook": {"hostNetwork": True}, "podSecurity": ""},
        "Deployment transom-webhook",
        ("spec", "template", "spec", "dnsPolicy"),
        "ClusterFirstWithHostNet",
    ),
    "view": ({}, "ClusterRole transom-view", ("rules", 0, "resources"), ["egressproxies", "windowsinstances"]),
    "account": (
        {"operator": {"serviceAccount": {"name": "mine"}}},
        "ClusterRoleBinding transom",
        ("subjects", 0, "name"),
        "mine",
    ),
    "version": ({}, "Deployment transom", ("metadata", "labels", "app.kubernetes.io/version"), __version__),
    "pod annotation": (
        {"operator": {"podAnnotations": {"sidecar.istio.io/inject": "false"}}},
        "Deployment transom",
        ("spec", "template", "metadata", "annotations", "sidecar.istio.io/inject"),
        "false",
    ),
}
"""Values, the kind and name of an object, a place in it, and what is there."""


@pytest.mark.parametrize("name", EXPECTED)
def test_what_people_expect_of_a_chart(name: str, tmp_path: Path) -> None:
    values, wanted, place, expected = EXPECTED[name]
    made = by_name(manifests("--values", str(written(tmp_path, values))).stdout)
    kind, _, named = wanted.partition(" ")
    value: Any = next(item for key, item in made.items() if key[0] == kind and key[2] == (named or key[2]))
    for part in place:
        value = value[part]
    assert value == expected


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
    assert without_chart(by_name(templated.stdout)) == {name: item for name, item in made.items() if name[0] != "Namespace"}

    base = tmp_path / "base"
    assert manifests("--values", str(values), "--namespace", NAMESPACE, "--output-dir", str(base)).returncode == 0
    built = subprocess.run([build.build_program(build.KUSTOMIZE), "build", base], capture_output=True, text=True, check=False)
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
        ("controller 'window'",),
    ),
    "digest": ({"image": {"digest": "sha256:1"}}, ("/image/digest", "does not match pattern"), ("$.image.digest",)),
    "condition": ({"enabled": False}, ("enabled: ", "parent chart"), ("`enabled`", "parent chart")),
    "host network": (
        {"webhook": {"hostNetwork": True}},
        ("webhook.hostNetwork: ", "podSecurity"),
        ("`webhook.hostNetwork`", "`podSecurity`"),
    ),
    "ports": ({"webhook": {"metricsPort": 9443}}, ("webhook.metricsPort",), ("`webhook.metricsPort`",)),
    "port": ({"webhook": {"port": 443}}, ("/webhook/port", "1,024"), ("$.webhook.port",)),
    "label": (
        {"commonLabels": {"app.kubernetes.io/name": "mine"}},
        ("commonLabels: ", "label app.kubernetes.io/name"),
        ("`commonLabels`", "label app.kubernetes.io/name"),
    ),
    "label of a monitor": (
        {"metrics": {"labels": {"helm.sh/chart": "mine"}}},
        ("metrics.labels: ", "label helm.sh/chart"),
        ("`metrics.labels`", "label helm.sh/chart"),
    ),
    "label of pods": (
        {"webhook": {"podLabels": {"app.kubernetes.io/component": "mine"}}},
        ("webhook.podLabels: ",),
        ("`webhook.podLabels`",),
    ),
    "runbooks": ({"metrics": {"runbookUrl": "docs/runbooks"}}, ("/metrics/runbookUrl",), ("$.metrics.runbookUrl",)),
    "one account": (
        {"operator": {"serviceAccount": {"name": "transom-webhook"}}},
        ("operator.serviceAccount.name",),
        ("`operator.serviceAccount.name`",),
    ),
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
    values = written(tmp_path, {"image": {"registry": "registry.example"}} | given)
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
    assert "image.registry: " in refused.stderr


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
    for name, definition in definitions.items():
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
        if definition.get("format") == "int-or-string" or name.endswith(".Quantity"):
            definition["type"] = ["string", "number"]
    (directory / "definitions.json").write_text(json.dumps({"definitions": definitions}), "utf-8")
    for name, item in definitions.items():
        for kind in item.get("x-kubernetes-group-version-kind", ()):
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
        done = subprocess.run(
            [build.build_program(build.KUBECONFORM), *options, *files], capture_output=True, text=True, check=False
        )
        told = json.loads(done.stdout)
        return (
            done.returncode,
            told["summary"],
            [f"{resource['kind']} {resource['name']}: {resource['msg']}" for resource in told["resources"]],
        )

    code, summary, said = found(*files)
    assert (code, summary["invalid"], summary["errors"]) == (0, 0, 0), said
    assert summary["valid"] > 200
    of_others = tuple(f"kind: {kind}\n" for kind in OF_OTHERS.split(","))
    assert summary["skipped"] == sum(file.read_text("utf-8").count(kind) for file in files for kind in of_others) > 0
    code, _, said = found(tmp_path / "wrong.yaml")
    assert code == 1
    assert said
    assert [item for item in said if not (item.startswith("Deployment ") and "replicaz" in item)] == []
