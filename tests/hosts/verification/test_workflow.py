"""The workflow that runs `transom verify host` and the tests of a real host on Windows; it cannot be run here."""

import copy
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.hosts.real import MARK
from tests.windows.powershell.scripts import WORKFLOW
from typer.testing import CliRunner

from lab import build
from transom.cli.commands.verify import verify


@pytest.mark.lab
@pytest.mark.parametrize(("slip", "right"), [("", True), ("runs-on:", False), ("${{ matrix.os }}", False)])
def test_the_workflow_is_one(slip: str, right: bool, tmp_path: Path) -> None:
    text = WORKFLOW.read_text("utf-8")
    made = tmp_path / "windows.yaml"
    made.write_text(text.replace(slip, slip[:-4]) if slip else text)
    schema = ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"]
    lint = [str(build.build_program(build.ACTIONLINT)), "-shellcheck=", "-pyflakes="]
    ended = [subprocess.run([*command, made], capture_output=True, text=True, check=False) for command in (schema, lint)]
    assert all(item.returncode == 0 for item in ended) is right, [item.stdout for item in ended]


def test_the_command_of_the_workflow_is_one() -> None:
    words = _words("transom verify host")
    options = {word for word in words if word.startswith("--")}
    helped = CliRunner().invoke(verify, ["host", "--help"], env={"COLUMNS": "200"}).stdout
    assert options == {"--locked", "--no-dev", "--username", "--key", "--change", "--junit", "--record"}
    assert all(option in helped for option in options - {"--locked", "--no-dev"})


def test_the_tests_of_the_workflow_are_those_of_a_real_host(pytestconfig: pytest.Config) -> None:
    words = _words("tests marked real")
    given = words[words.index("pytest") + 1 :]
    known = pytestconfig._parser.parse_known_args(given, copy.copy(pytestconfig.option))
    assert (known.file_or_dir, known.markexpr) == (["tests/hosts/passes"], MARK)
    assert (known.host, known.host_key_file, known.xmlpath) == ("$ADMINISTRATOR@127.0.0.1", Path("$HOME/key"), "real.xml")
    assert f"mark.{MARK})" in Path("tests/hosts/conftest.py").read_text("utf-8")


def _words(name: str) -> list[str]:
    """The last command of a step, word by word."""
    (step,) = (step for step in _steps() if step.get("name") == name)
    return step["run"].replace("\\\n", "").splitlines()[-1].replace('"', "").split()


def _steps() -> list[dict[str, str]]:
    steps: list[dict[str, str]] = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]["verify"]["steps"]
    return steps
