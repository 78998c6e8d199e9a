"""What `transom render` prints for templates and classes that are kept in Git."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.control_plane import ControlPlane
from tests.support.management import manifests
from typer.testing import CliRunner

from transom.capi.bootstrap.injection import CONTROL_PLANE_SPEC, TEMPLATE_SPEC, build_entries_patch
from transom.capi.bootstrap.kubeadm import Entries
from transom.capi.bootstrap.machine_files import DROP_INS, ENV_FILE
from transom.cli.program import build_program

EVERY_NODE = ["Nodes", "StaticPods"]
SECRETS = frozenset(("mycluster-systemd-proxy", "mycluster-windows-proxy"))


def rendered(tmp_path: Path, *objects: dict[str, Any], form: str = "entries") -> list[dict[str, Any]]:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([*objects, manifests.credentials()]))
    done = CliRunner().invoke(build_program(), ["render", "-f", str(tmp_path), "--machine-templates", form])
    assert done.exit_code == 0, done.output
    assert "hunter2" not in done.stdout
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def test_entries_of_a_cluster_are_those_that_an_edit_would_make(tmp_path: Path) -> None:
    first, linux, windows = rendered(tmp_path, manifests.base(consumers=EVERY_NODE), manifests.cluster())
    assert (first["kind"], first["metadata"]) == ("KubeadmControlPlane", {"name": "mycluster", "namespace": "org-giantswarm"})
    spec = first["spec"]["kubeadmConfigSpec"]
    assert [file["path"] for file in spec["files"]][-1] == "/etc/transom/proxy.env"
    # all of it is known as ours: a cluster that is edited later loses none and gets none twice
    removed = build_entries_patch(spec, Entries(), SECRETS, CONTROL_PLANE_SPEC).operations
    assert [operation["op"] for operation in removed] == ["test", "remove"]
    for item in (linux, windows):
        template = item["spec"]["template"]["spec"]
        assert [
            operation["op"] for operation in build_entries_patch(template, Entries(), SECRETS, TEMPLATE_SPEC).operations
        ] == [
            "test",
            "remove",
        ]
    assert windows["spec"]["template"]["spec"]["files"][0]["path"] == "C:/k/proxy.reg"


@pytest.mark.parametrize(
    ("consumers", "kinds", "paths"),
    [
        (None, ["KubeadmControlPlane", "KubeadmConfigTemplate", "KubeadmConfigTemplate"], list(DROP_INS)),
        (["StaticPods"], ["KubeadmControlPlane"], [ENV_FILE]),
        (["Apps"], [], []),
    ],
)
def test_static_pods_get_credentials_only_where_they_are_named(
    consumers: list[str] | None, kinds: list[str], paths: list[str], tmp_path: Path
) -> None:
    found = rendered(tmp_path, manifests.base(**({"consumers": consumers} if consumers else {})), manifests.cluster())
    assert [item["kind"] for item in found] == kinds
    assert [file["path"] for item in found[:1] for file in item["spec"]["kubeadmConfigSpec"]["files"]] == paths


def test_no_settings_nothing_to_commit(tmp_path: Path) -> None:
    for form in ("entries", "cluster-class"):
        assert rendered(tmp_path, manifests.cluster(), form=form) == []


@pytest.mark.lab
@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ({}, '"{{ .builtin.cluster.name }}-systemd-proxy"'),
        (
            {"giantswarm.io/cluster": "prod"},
            '"{{ index .builtin.cluster.metadata.labels `giantswarm.io/cluster` }}-systemd-proxy"',
        ),
    ],
)
def test_patch_of_a_class_names_each_clusters_own_secret_and_the_server_takes_it(
    tmp_path: Path, management_plane: ControlPlane, labels: dict[str, str], named: str
) -> None:
    (found,) = rendered(tmp_path, manifests.base(consumers=EVERY_NODE), manifests.cluster(labels=labels), form="cluster-class")
    (patch,) = found["spec"]["patches"]
    templates = [
        json_patch["valueFrom"]["template"]
        for d in patch["definitions"]
        for json_patch in d["jsonPatches"]
        if "valueFrom" in json_patch
    ]
    assert sum(named in template for template in templates) == 5
    for template in templates:
        assert yaml.safe_load(template)["contentFrom"]["secret"]["name"]
    reference = {"kind": "LabTemplate", "apiVersion": "infrastructure.cluster.x-k8s.io/v1", "name": "lab"}
    spec = {
        "infrastructure": {"templateRef": reference},
        "controlPlane": {"templateRef": reference},
        "patches": [patch],
    }
    value = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": "lab"}, "spec": spec}
    management_plane.run_kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", input=json.dumps(value))
