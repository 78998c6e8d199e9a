"""The recipe of an image, read by the programs that would read it: HCL2, PowerShell, cloudbase-init's configuration."""

import ast
import hashlib
import importlib.resources
import json
import re
from pathlib import Path
from typing import Any, get_args

import cloudbaseinit
import hcl2
import pytest
from cloudbaseinit.conf import factory as conf_factory
from oslo_config import cfg
from tests.support.repository import DOCS
from typer.testing import CliRunner

from lab import powershell
from transom.capi.check.worker_inputs import Daemons, ProviderName
from transom.capi.image.image_recipe import InvalidRecipe, Recipe, build_recipe
from transom.capi.image.inputs import ImageInputs
from transom.cli.program import build_program

FILES = Path(str(importlib.resources.files("transom.capi") / "image" / "files"))
PROVIDERS = get_args(ProviderName)
SHA256 = "ab" * 32
FUNCTIONS = {"Get-CheckedFile", "Get-RemoteFile", "Invoke-Checked", "Get-Address"}
CMDLET = re.compile(r"[A-Z][A-Za-z]+-[A-Z][A-Za-z]+\Z")


def recipe(provider: ProviderName, daemons: Daemons = "hostprocess", **variables: str) -> Recipe:
    return build_recipe(ImageInputs(provider, daemons=daemons, variables=variables))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_packer_finds_what_it_needs(provider: ProviderName) -> None:
    made = recipe(provider)
    template = hcl2.loads(made.files["windows.pkr.hcl"].decode())
    declared = {name.strip('"') for block in hcl2.loads(made.files["variables.pkr.hcl"].decode())["variable"] for name in block}
    used = set(re.findall(r"\bvar\.([a-z0-9_]+)", made.files["windows.pkr.hcl"].decode()))
    assert used <= declared
    (build,) = template["build"]
    called = re.findall(r"image\\\\([a-z-]+)\.ps1", made.files["windows.pkr.hcl"].decode())
    assert [f"scripts/{name}.ps1" for name in called if f"scripts/{name}.ps1" not in made.files] == []
    assert (called[0], "finish" in called[-2:]) == ("features", True)
    assert len(build["provisioner"]) == len(called) + 5


@pytest.mark.parametrize("daemons", ["hostprocess", "services"])
def test_every_script_is_powershell(daemons: Daemons) -> None:
    made = recipe("aws", daemons)
    scripts = {name: content.decode() for name, content in made.files.items() if name.endswith(".ps1")}
    assert len(scripts) > 10
    for name, text in scripts.items():
        assert "\r\n" in text
        assert powershell.find_syntax_errors(text.replace("<powershell>", "").replace("</powershell>", "")) == [], name


def test_every_cmdlet_is_verified_by_its_page() -> None:
    package = importlib.resources.files("transom.capi")
    files = [file for folder in ("scripts", "image/files") for file in (package / folder).iterdir()]
    texts = [file.read_text("utf-8") for file in files if file.name.endswith(".ps1")]
    called = {name for text in texts for name in powershell.list_commands(text) if CMDLET.match(name)} - FUNCTIONS
    page = (DOCS / "verified.md").read_text("utf-8")
    assert len(called) > 20
    assert sorted(name for name in called if f"`{name}`" not in page) == []


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # in cloudbase-init's source
@pytest.mark.parametrize("provider", PROVIDERS)
def test_cloudbase_init_takes_its_configuration(provider: ProviderName, tmp_path: Path) -> None:
    file = tmp_path / "cloudbase-init.conf"
    file.write_bytes(recipe(provider).files["scripts/cloudbase-init.conf"])
    settings = cfg.ConfigOpts()
    for name in conf_factory.get_options():
        name(settings).register()
    settings(["--config-file", str(file)])
    assert (settings.allow_reboot, settings.inject_user_password) == (True, False)
    for path in settings.metadata_services:
        module, _, name = path.rpartition(".")
        # Azure's imports libraries of Windows: its source tells
        place = FILES if module.startswith("transom_") else Path(str(cloudbaseinit.__file__)).parents[1]
        source = place / f"{module.replace('.', '/')}.py"
        assert name in {node.name for node in ast.parse(source.read_text()).body if isinstance(node, ast.ClassDef)}
    assert ("transom_boothook.BoothookPlugin" in settings.user_data_plugins) == (provider == "aws")
    for path in settings.plugins:
        module, _, name = path.rpartition(".")
        source = Path(str(cloudbaseinit.__file__)).parents[1] / f"{module.replace('.', '/')}.py"
        assert name in {node.name for node in ast.parse(source.read_text()).body if isinstance(node, ast.ClassDef)}


def test_signed_builds_are_used_where_they_are_given() -> None:
    given = {"containerd_url": "https://builds.example.com/signed/containerd.tgz", "containerd_sha256": SHA256}
    made = recipe("vsphere", **given, kubernetes_base_url="https://builds.example.com/k8s/")
    listed = {item["name"]: item for item in json.loads(made.files["manifest.json"])["downloads"]}
    assert (listed["containerd"]["url"], listed["containerd"]["sha256"]) == (given["containerd_url"], SHA256)
    assert listed["containerd"]["check"] == "sha256"
    assert listed["kubelet"]["url"] == "https://builds.example.com/k8s/kubelet.exe"
    assert 'default = "https://builds.example.com/signed/containerd.tgz"' in made.files["variables.pkr.hcl"].decode()


def test_the_manifest_says_what_goes_in() -> None:
    made = recipe("azure")
    manifest = json.loads(made.files["manifest.json"])
    others = {name: content for name, content in made.files.items() if name != "manifest.json"}
    assert manifest["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in others.items()}
    assert {item["check"] for item in manifest["downloads"]} == {"published", "sha256", "signature"}


def test_a_text_of_a_variable_stays_that_text() -> None:
    awkward = 'a"b\\c${d}%{e}é'
    made = recipe("gcp", http_proxy=awkward)
    text = made.files["variables.pkr.hcl"].decode()
    assert json.dumps(awkward, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{") in text
    assert "sensitive" in text[text.index('variable "http_proxy"') :].split("}\n\n")[0]


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (ImageInputs("aws", windows="2016"), "Kubernetes does not list Windows Server '2016'"),
        (ImageInputs("aws", kubernetes_version="1.36"), "not a version of the form v1.N.M"),
        (ImageInputs("aws", variables={"containerdurl": "x"}), "containerdurl is not a variable"),
        (ImageInputs("aws", variables={"containerd_sha256": "12"}), "containerd_sha256: a SHA-256 hash must have"),
    ],
)
def test_what_cannot_be_built_is_refused(inputs: ImageInputs, said: str) -> None:
    with pytest.raises(InvalidRecipe, match=re.escape(said)):
        build_recipe(inputs)


def test_services_of_the_image_have_their_programs() -> None:
    fetched = {item.name for item in recipe("vsphere", "services").downloads}
    assert fetched - {item.name for item in recipe("vsphere").downloads} == {"kube_proxy"}


def test_offline(tmp_path: Path) -> None:
    runner = CliRunner()
    told = runner.invoke(build_program(), ["capi", "image", "--provider", "openstack", "--offline", "-o", "json"])
    downloads: list[dict[str, Any]] = json.loads(told.stdout)
    variables = {item["variable"] for item in downloads}
    assert variables == {"containerd_url", "cloudbase_init_url", "ssh_source_url", "cni_plugins_url", "kubernetes_base_url"}
    held = tmp_path / "held"
    held.mkdir()
    for item in downloads[1:]:
        (held / item["file"]).write_bytes(item["name"].encode())
    arguments = ["capi", "image", "--provider", "openstack", "--output-dir", str(tmp_path / "image"), "--downloads", str(held)]
    refused = runner.invoke(build_program(), arguments)
    assert (refused.exit_code, downloads[0]["file"] in refused.stderr) == (2, True)
    (held / downloads[0]["file"]).write_bytes(b"x")
    assert runner.invoke(build_program(), arguments).exit_code == 0
    manifest = json.loads((tmp_path / "image" / "manifest.json").read_text())
    assert all(item["check"] == "sha256" and len(item["sha256"]) == 64 for item in manifest["downloads"])
    assert 'source      = "${path.root}/downloads/"' in (tmp_path / "image" / "windows.pkr.hcl").read_text()
    assert {file.name for file in (tmp_path / "image" / "downloads").iterdir()} == {item["file"] for item in downloads}
