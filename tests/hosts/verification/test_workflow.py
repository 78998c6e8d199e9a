"""The workflow that runs `transom verify host` on real Windows; it cannot be run here."""

import subprocess
from pathlib import Path

import pytest
import yaml
from tests.windows.powershell.scripts import WORKFLOW
from typer.testing import CliRunner

from lab import build
from transom.cli.verify import verify


@pytest.mark.lab
@pytest.mark.parametrize(("slip", "right"), [("", True), ("runs-on:", False), ("${{ matrix.os }}", False)])
def test_the_workflow_is_one(slip: str, right: bool, tmp_path: Path) -> None:
    text = WORKFLOW.read_text("utf-8")
    made = tmp_path / "windows.yaml"
    made.write_text(text.replace(slip, slip[:-4]) if slip else text)
    schema = ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"]
    lint = [str(build.program(build.ACTIONLINT)), "-shellcheck=", "-pyflakes="]
    ended = [subprocess.run([*command, made], capture_output=True, text=True, check=False) for command in (schema, lint)]
    assert all(one.returncode == 0 for one in ended) is right, [one.stdout for one in ended]


def test_the_command_of_the_workflow_is_one() -> None:
    (step,) = (one for one in _steps() if one.get("name") == "transom verify host")
    line = step["run"].replace("\\\n", "").splitlines()[-1]
    words = line.partition("transom verify host ")[2].replace('"', "").split()
    options = {word for word in words if word.startswith("--")}
    helped = CliRunner().invoke(verify, ["host", "--help"], env={"COLUMNS": "200"}).stdout
    assert options == {"--username", "--key", "--change", "--junit", "--record"}
    assert all(option in helped for option in options)


def _steps() -> list[dict[str, str]]:
    steps: list[dict[str, str]] = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["verify"]["steps"]
    return steps
