"""The builds of images, by Packer 1.11.2 itself, and by what each of its plugins takes (tests/capi/packer_fields.yaml)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import hcl2
import pytest
import yaml
from tests.capi.packer_program import exchanged, packer, written
from tests.windows.powershell.scripts import WORKFLOW

from transom.capi.check.worker_inputs import ProviderName
from transom.capi.image.image_recipe import build_recipe
from transom.capi.image.inputs import ImageInputs
from transom.capi.providers.provider_table import PROVIDERS as ALL

PROVIDERS = get_args(ProviderName)
FIELDS: dict[str, Any] = yaml.load(Path(__file__).with_name("packer_fields.yaml").read_text(), yaml.CSafeLoader)
OF_PACKER = {"communicator", "winrm_use_ssl", "winrm_insecure", "winrm_username", "winrm_password"}
AWKWARD = 'a b"c\\d$${e}%{f}é'


@pytest.mark.lab
@pytest.mark.parametrize("offline", [False, True], ids=["fetched", "offline"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_packer_takes_the_template(provider: ProviderName, tmp_path: Path, *, offline: bool) -> None:
    """From another directory, with every variable given: a text that HCL could stumble over, where it is no number."""
    plain = build_recipe(ImageInputs(provider))
    made = build_recipe(ImageInputs(provider), {item.file: "0" * 64 for item in plain.downloads} if offline else None)
    image = written(made, tmp_path / "image")
    if offline:
        (image / "downloads").mkdir()
    assert (
        packer("validate", "-syntax-only", str(image), directory=tmp_path)
        == "Syntax-only check passed. Everything looks okay.\n"
    )
    template = image / "windows.pkr.hcl"
    template.write_text(exchanged(template.read_text("utf-8")), "utf-8")
    declared = hcl2.loads(made.files["variables.pkr.hcl"].decode())["variable"]
    names = [name.strip('"') for block in declared for name in block]
    given = [f"-var={name}={'120' if name == 'disk_size' else AWKWARD}" for name in names]
    assert len(given) > 20
    assert packer("validate", *given, str(image), directory=tmp_path) == "The configuration is valid.\n"
    said = packer("validate", *given, "-var=containerdurl=x", str(image), directory=tmp_path)
    assert "containerdurl" in said


@pytest.mark.lab
def test_the_workflow_sets_the_environment_that_packer_sets(tmp_path: Path) -> None:
    """It has no plugin, as Packer on a runner has none."""
    made = build_recipe(ImageInputs("aws"))
    (step,) = (
        step for step in yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["image"]["steps"] if "& " in step.get("run", "")
    )
    (expression,) = re.findall(r"^ *\$environment = '(.*)' \|", step["run"], re.MULTILINE)
    lines = packer("console", str(written(made, tmp_path)), directory=tmp_path, typed=f"{expression}\n").splitlines()
    environment = dict(line.split("=", 1) for line in lines)
    local = hcl2.loads(made.files["windows.pkr.hcl"].decode())["locals"][0]["environment"]
    assert environment.keys() == {name.strip('"') for name in local}
    assert (environment["WINDOWS_YEAR"], environment["SHUT_DOWN_BY_SYSPREP"]) == ("2022", "false")
    assert environment["CONTAINERD_URL"].startswith("https://")


def unknown(body: Mapping[str, Any], fields: Mapping[str, Any], path: str = "") -> list[str]:
    """What stands in a block and its plugin does not have, or has as something else: a block, an attribute."""
    found = []
    # what begins so is the parser's own
    for name, value in ((name, value) for name, value in body.items() if not name.startswith("__")):
        wanted = fields.get(name)
        if wanted is None:
            found.append(f"{path}{name}")
        elif isinstance(wanted, dict):
            blocks = value if isinstance(value, list) else [value]
            found += [item for block in blocks for item in unknown(block, wanted, f"{path}{name}.")]
        elif isinstance(value, list) != wanted.startswith("List"):
            found.append(f"{path}{name}: {wanted}")
    return found


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_plugin_has_every_field(provider: ProviderName) -> None:
    builder = ALL[provider].builder
    plugin = FIELDS[builder.type]
    assert plugin["repository"] == builder.source.removeprefix("github.com/").replace("/", "/packer-plugin-", 1)
    body = hcl2.loads(build_recipe(ImageInputs(provider)).files["windows.pkr.hcl"].decode())["source"][0][f'"{builder.type}"'][
        '"windows"'
    ]
    shown = {name.strip('"'): value for name, value in body.items()}
    assert len(shown) > 8
    assert unknown(shown, plugin["fields"]) == []
    assert {name for name in shown if name.startswith(("winrm", "communicator"))} <= OF_PACKER


def test_an_unknown_field_is_found() -> None:
    fields = FIELDS["amazon-ebs"]["fields"]
    assert unknown({"ami_nam": "x", "source_ami_filter": [{"filter": {}}]}, fields) == ["ami_nam", "source_ami_filter.filter"]
    assert unknown({"ami_users": "x"}, fields) == ["ami_users: List(String)"]
