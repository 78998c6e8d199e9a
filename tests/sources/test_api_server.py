"""The same objects, from files and from a real API server, give the same settings and findings."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.control_plane import ControlPlane
from tests.support.bundles import certificate, config_map, egress_proxy, secret, write
from tests.support.command import run

pytestmark = pytest.mark.lab


def objects() -> list[dict[str, Any]]:
    networks = {"machineNetwork": ["10.0.0.0/16"], "podNetwork": ["10.128.0.0/14"], "internalAPIHost": "api.x"}
    spec = {"httpProxy": "http://p.x:1", "noProxy": "a.x,10.0.0", "networks": networks | {"serviceNetwork": ["10.2.0.0/16"]}}
    password = base64.b64encode(b"hunter2%").decode()
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "transom-system"}},
        egress_proxy(spec | {"credentialsSecret": {"name": "creds"}, "trustedCA": {"name": "ca"}}),
        egress_proxy({"noProxy": "mesh.x", "priority": 1}, "mesh"),
        secret("creds", data={"username": "dQ==", "password": password}),
        config_map("ca", {"ca-bundle.crt": certificate("Corp")}),
    ]


def test_files_and_server_agree(control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placed = [dict(item) for item in objects()]
    for item in placed:
        if item["kind"] in ("Secret", "ConfigMap"):
            item["metadata"] = item["metadata"] | {"namespace": "transom-system"}
    directory = write(tmp_path, *placed)
    control_plane.apply(placed)
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    files, server = (run("validate", "-o", "json", *option) for option in (("-f", directory), ()))
    assert (files.code, server.code) == (0, 0)
    without_places = [
        [(finding["severity"], finding["object"], finding["field"], finding["message"]) for finding in ran.json]
        for ran in (files, server)
    ]
    assert without_places[0] == without_places[1] != []
    lists = [run("no-proxy", "merge", "-o", "json", *option).json for option in (("-f", directory), ())]
    assert lists[0] == lists[1] != []
    rendered = [list(yaml.safe_load_all(run("render", *option).out)) for option in (("-f", directory), ())]
    assert rendered[0] == rendered[1]
    assert "hunter2" not in server.out + server.err
