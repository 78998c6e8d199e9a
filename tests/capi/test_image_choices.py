"""What a build can be told besides URLs: Hyper-V, updates, images, a credential provider; by image-builder's names."""

import json
import re
from pathlib import Path
from typing import Any

import hcl2
import msgspec
import pytest
import yaml
from cloudbaseinit.conf import factory as conf_factory
from oslo_config import cfg
from tests.capi.packer_program import exchanged, packer, written
from tests.support.repository import DOCS

from lab import powershell
from transom.capi.check import upstream_image as upstream
from transom.capi.check.worker_inputs import ProviderName, WorkerInputs
from transom.capi.image.image_recipe import InvalidRecipe, Recipe, build_recipe
from transom.capi.image.inputs import ImageInputs
from transom.capi.worker.worker_objects import build_worker as make_worker

PACKER_FIELDS = Path(__file__).with_name("packer_fields.yaml")
URL = "https://builds.example.com/azure-acr-credential-provider-windows-amd64.exe"
SHA256 = "ab" * 32
CHOSEN = {
    "hyper_v": "true",
    "disable_hypervisor": "true",
    "windows_updates_kbs": "KB5044281 5050021",
    "windows_updates_categories": "SecurityUpdates CriticalUpdates",
    "additional_registry_images_list": "mcr.microsoft.com/windows/nanoserver:ltsc2022,registry.example.com:5000/a/b@sha256:"
    + SHA256,
    "cloudbase_real_time_clock_utc": "true",
    "cloudbase_logging_serial_port": "COM1,115200,N,8",
    "credential_provider_url": URL,
    "credential_provider_sha256": SHA256,
}

NAMES: dict[ProviderName, str] = {"azure": upstream.ACR_PROVIDER.value, "aws": upstream.ECR_PROVIDER.value}


def recipe(provider: ProviderName = "azure", variables: dict[str, str] = CHOSEN) -> Recipe:
    return build_recipe(ImageInputs(provider, variables=variables))


def script(made: Recipe, name: str) -> str:
    return made.files[f"scripts/{name}.ps1"].decode().replace("\r\n", "\n")


def test_each_choice_reaches_its_script_by_its_name() -> None:
    made = recipe()
    template = made.files["windows.pkr.hcl"].decode()
    texts = "".join(content.decode() for name, content in made.files.items() if name.endswith(".ps1"))
    for name, value in CHOSEN.items():
        assert re.search(rf"^ +{name.upper()} += var\.{name}$", template, re.MULTILINE), name
        assert f"$env:{name.upper()}" in texts
        assert json.dumps(value) in made.files["variables.pkr.hcl"].decode()
    assert set(upstream.CHOICES.value.split(", ")) | {
        upstream.ADDITIONAL_IMAGES.value,
        *upstream.FIRST_BOOT.value.split(", "),
    } <= set(CHOSEN)


def test_without_a_choice_nothing_of_it_is_done() -> None:
    made = recipe(variables={})
    assert "scripts/credential-provider.ps1" not in made.files
    assert "credential-provider.ps1" not in made.files["windows.pkr.hcl"].decode()
    defaults = {
        name.strip('"'): block["default"].strip('"')
        for item in hcl2.loads(made.files["variables.pkr.hcl"].decode())["variable"]
        for name, block in item.items()
        if "default" in block
    }
    assert {name: defaults[name] for name in CHOSEN} == {
        name: "false" if value == "true" else "" for name, value in CHOSEN.items()
    }
    assert "credential_provider" not in {item.name for item in made.downloads}


def test_the_scripts_do_what_image_builder_does() -> None:
    made = recipe()
    features = script(made, "features")
    role, hypervisor, cmdlets = upstream.HYPER_V.value.split(", ")
    assert f"'/enable-feature', '/featurename:{role}', '/all', '/NoRestart'" in features
    assert f"'/disable-feature', '/featurename:{hypervisor}', '/NoRestart'" in features
    assert f"-Name '{cmdlets}'" in features
    assert f"'winrm', 'start=', '{upstream.DELAYED_WINRM.value}'" in features
    assert f"hns\\State\", '{upstream.COMPARTMENTS.value}', 1)" in script(made, "hns")
    provider = script(made, "credential-provider")
    assert r"C:\var\lib\kubelet\credential-provider\$env:CREDENTIAL_PROVIDER_NAME.exe" in provider
    for name in ("features", "updates", "pause", "hns", "credential-provider", "transom-image-check"):
        assert powershell.find_syntax_errors(script(made, name)) == [], name
    # a category's name has blanks in Windows, and none in image-builder's list
    assert all(re.fullmatch(r"[A-Za-z]+", name) for name in upstream.UPDATE_CATEGORIES.value.split(", "))
    assert "$_.Name -replace ' ', ''" in script(made, "updates")


def test_first_boot_is_told_of_its_clock_and_its_log(tmp_path: Path) -> None:
    """What the script adds is an option of cloudbase-init's, in both of its configurations."""
    made = recipe()
    assert f"Control\\TimeZoneInformation\", '{upstream.CLOCK.value}', 1)" in script(made, "hns")
    (name,) = re.findall(
        r"AppendAllText\(.+?\.conf\", \"(\w+)=\$env:CLOUDBASE_LOGGING_SERIAL_PORT`r`n\"\)", script(made, "cloudbase-init")
    )
    for file in ("cloudbase-init", "cloudbase-init-unattend"):
        held = tmp_path / f"{file}.conf"
        held.write_bytes(made.files[f"scripts/{file}.conf"] + f"{name}=COM1,115200,N,8\r\n".encode())
        settings = cfg.ConfigOpts()
        for options in conf_factory.get_options():
            options(settings).register()
        settings(["--config-file", str(held)])
        assert settings.logging_serial_port_settings == "COM1,115200,N,8"


def test_the_credential_provider_is_a_download_like_others() -> None:
    made = recipe()
    (listed,) = [item for item in json.loads(made.files["manifest.json"])["downloads"] if item["name"] == "credential_provider"]
    assert (listed["url"], listed["sha256"], listed["check"]) == (URL, SHA256, "sha256")
    for provider, name in NAMES.items():
        assert f'default = "{name}"' in recipe(provider).files["variables.pkr.hcl"].decode()


REFUSED: list[tuple[ProviderName, dict[str, str], str]] = [
    ("azure", {"hyper_v": "yes"}, "hyper_v: true or false, not 'yes'"),
    ("azure", {"disable_hypervisor": "true"}, "disable_hypervisor requires hyper_v=true"),
    ("azure", {"credential_provider_url": URL}, "credential_provider_url requires credential_provider_sha256"),
    ("vsphere", {"credential_provider_url": URL, "credential_provider_sha256": SHA256}, "credential_provider_name: missing"),
    ("azure", {"windows_updates_kbs": "KB1,KB2"}, "windows_updates_kbs: 'KB1,KB2' is none"),
    ("azure", {"additional_registry_images_list": "a, b"}, "additional_registry_images_list: 'a, b' is none"),
    ("azure", {"additional_registry_images_list": "--all"}, "'--all' is none"),
    ("azure", {"credential_provider_name": "..\\x"}, "x' is none"),
]


@pytest.mark.parametrize(("provider", "variables", "said"), REFUSED, ids=[case[2] for case in REFUSED])
def test_refused(provider: ProviderName, variables: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidRecipe, match=re.escape(said)):
        recipe(provider, variables)


@pytest.mark.lab
def test_packer_takes_the_choices(tmp_path: Path) -> None:
    directory = written(recipe(), tmp_path)
    file = directory / "windows.pkr.hcl"
    file.write_text(exchanged(file.read_text()))
    given = ("-var=subscription_id=s", "-var=resource_group=g")
    assert "The configuration is valid." in packer("validate", *given, str(directory), directory=tmp_path)


def test_an_image_of_azure_goes_into_a_gallery_that_is_named() -> None:
    """The plugin has each of the block's fields; CAPZ takes a version of it by its id."""
    gallery, version = upstream.GALLERY.value.split(", ")
    plain, made = recipe(variables={}), recipe(variables={gallery: "workers"})
    assert "shared_image_gallery_destination" not in plain.files["windows.pkr.hcl"].decode()
    source = hcl2.loads(made.files["windows.pkr.hcl"].decode())["source"][0]['"azure-arm"']['"windows"']
    (block,) = source["shared_image_gallery_destination"]
    fields = yaml.safe_load(PACKER_FIELDS.read_text())["azure-arm"]["fields"]["shared_image_gallery_destination"]
    assert {name for name in block if not name.startswith("__")} <= set(fields)
    assert (block["gallery_name"], block["image_version"]) == (f"${{var.{gallery}}}", f"${{var.{version}}}")
    variables = made.files["variables.pkr.hcl"].decode()
    assert 'default = "1.36.3"' in variables
    given = {gallery: "workers", version: "1.36.4"}
    assert 'default = "1.36.4"' in recipe(variables=given).files["variables.pkr.hcl"].decode()
    with pytest.raises(InvalidRecipe, match="sig_image_version: three numbers"):
        recipe(variables={**given, version: "v1"})
    image = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/workers/images/i/versions/1.36.3"
    machine = make_worker(WorkerInputs("prod", "azure", image=image)).objects[1]["spec"]["template"]["spec"]
    assert machine["image"] == {"id": image}


def test_the_worker_takes_what_the_page_says_of_it() -> None:
    """The flags, and the configuration as a file, for the program at the place where the build puts it."""
    (block,) = re.findall(r"```yaml\n(kubeletArguments:.+?)```", (DOCS / "windows-images.md").read_text("utf-8"), re.DOTALL)
    inputs = msgspec.convert({"cluster": "prod", "provider": "azure", **yaml.safe_load(block)}, WorkerInputs)
    made = make_worker(inputs)
    assert [finding for finding in made.findings if finding.severity == "error"] == []
    spec: dict[str, Any] = made.objects[0]["spec"]["template"]["spec"]
    given = {item["name"]: item["value"] for item in spec["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"]}
    directory, file = (given[name] for name in upstream.CREDENTIAL_FLAGS.value.split(", "))
    assert directory.replace("/", "\\") in script(recipe(), "credential-provider")
    (configuration,) = [yaml.safe_load(item.content) for item in inputs.files if item.path == file]
    assert configuration["providers"][0]["name"] == upstream.ACR_PROVIDER.value
    assert configuration["providers"][0]["args"] == [
        next(file["path"] for file in spec["files"] if "azure.json" in file["path"])
    ]
