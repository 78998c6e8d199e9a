"""RKE2 and Talos: what is printed for their templates in Git passes their own definitions, and holds what it has to."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.control_plane import ControlPlane
from tests.capi.kept_definitions import kept_definitions
from tests.support.bundles import certificate, config_map
from tests.support.management.manifests import USER, base, cluster, credentials
from typer.testing import CliRunner

from transom.capi.bootstrap.machine_files import MACHINE_ENV, READ_MACHINE_ENV, SET_MACHINE_ENV, TRUST
from transom.cli.program import build_program

PASSWORD = 'hunter2%^&!"\\é$ x'
URL = f"http://{USER}:hunter2%25%5E%26%21%22%5C%C3%A9%24%20x@192.168.52.220:3128"
# what an object of the kind needs besides, and where
RKE2 = {
    "registrationMethod": "control-plane-endpoint",
    "version": "v1.36.3+rke2r1",
    "rolloutStrategy": {"type": "RollingUpdate"},
    "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "x.io", "kind": "LabMachineTemplate", "name": "lab"}}},
}
TALOS = {"infrastructureTemplate": {}, "version": "v1.36.3"}


def rendered(tmp_path: Path, kind: str, *arguments: str, **spec: Any) -> tuple[list[dict[str, Any]], str]:
    one = cluster()
    one["spec"]["controlPlaneRef"] = {"kind": kind, "name": "mycluster"}
    bundle = config_map("corp-ca", {"ca-bundle.crt": certificate("corp")})
    values = [base(trustedCA={"name": "corp-ca"}, **spec), credentials(PASSWORD), bundle, one]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(values))
    done = CliRunner().invoke(build_program(), ["render", "-f", str(tmp_path), "--machine-templates", "entries", *arguments])
    assert done.exit_code == 0, done.output
    return [item for item in yaml.safe_load_all(done.stdout) if item], done.output


@pytest.mark.parametrize("scope", ["Services", "Both"])
def test_rke2_has_the_files_of_its_services_and_an_environment_for_its_installer(tmp_path: Path, scope: str) -> None:
    (server, template), output = rendered(tmp_path, "RKE2ControlPlane", linux={"environmentScope": scope})
    assert "hunter2" not in output
    for service, spec in (("rke2-server", server["spec"]), ("rke2-agent", template["spec"]["template"]["spec"])):
        files = {file["path"]: file for file in spec["files"]}
        drop_in = files[f"/etc/systemd/system/{service}.service.d/http-proxy.conf"]
        assert drop_in["contentFrom"] == {"secret": {"name": "mycluster-systemd-proxy", "key": "containerdProxy"}}
        assert files[MACHINE_ENV]["contentFrom"] == {"secret": {"name": "mycluster-systemd-proxy", "key": "shell"}}
        assert not any("containerd.service" in path or "kubelet.service" in path for path in files)
        whole = [SET_MACHINE_ENV] if scope == "Both" else []
        assert spec["preRKE2Commands"][:-1] == [*whole, READ_MACHINE_ENV, TRUST]


def test_talos_has_the_values_themselves_and_shows_them_to_who_asks(tmp_path: Path) -> None:
    (_, hidden), output = rendered(tmp_path, "TalosControlPlane")
    assert "hunter2" not in output
    assert "http://***@192.168.52.220:3128" in hidden["spec"]["template"]["spec"]["strategicPatches"][0]
    (plane, template), _ = rendered(tmp_path, "TalosControlPlane", "--show-secrets")
    patches = template["spec"]["template"]["spec"]["strategicPatches"]
    assert plane["spec"]["controlPlaneConfig"]["controlplane"]["strategicPatches"] == patches
    env, roots = map(yaml.safe_load, patches)
    assert env["machine"]["env"]["https_proxy"] == env["machine"]["env"]["http_proxy"] == URL
    assert env["machine"]["env"]["no_proxy"].startswith("cluster.local,100.64.0.0/13,")
    assert (roots["kind"], roots["certificates"]) == ("TrustedRootsConfig", certificate("corp"))


@pytest.mark.parametrize("kind", ["RKE2ControlPlane", "TalosControlPlane"])
def test_who_is_no_consumer_gets_nothing(tmp_path: Path, kind: str) -> None:
    assert rendered(tmp_path, kind, consumers=["Apps"])[0] == []


@pytest.fixture(scope="module")
def definitions(management_plane: ControlPlane) -> ControlPlane:
    files = kept_definitions("rke2", "talos")
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": files})
    management_plane.run_kubectl("apply", "--server-side", "-f", "-", input=listed)
    names = [f"crd/{file['metadata']['name']}" for file in files]
    management_plane.run_kubectl("wait", "--for=condition=Established", "--timeout=180s", *names)
    return management_plane


@pytest.mark.lab
@pytest.mark.parametrize(("kind", "more"), [("RKE2ControlPlane", RKE2), ("TalosControlPlane", TALOS)])
def test_their_own_definitions_take_it(tmp_path: Path, definitions: ControlPlane, kind: str, more: dict[str, Any]) -> None:
    objects, _ = rendered(tmp_path, kind, "--show-secrets", linux={"environmentScope": "Both"})
    for obj in objects:
        if obj["kind"] == kind:
            obj["spec"] |= more
        if "Talos" in obj["kind"]:
            spec = obj["spec"]
            (spec["controlPlaneConfig"]["controlplane"] if obj["kind"] == kind else spec["template"]["spec"])[
                "generateType"
            ] = "worker"
        obj["metadata"]["namespace"] = "default"
        definitions.run_kubectl("create", "--dry-run=server", "--validate=strict", "-f", "-", input=json.dumps(obj))
