"""What commands print and what hosts run, word for word, as it was at the commit before.

A difference that is meant is written with `TRANSOM_WRITE_OUTPUTS=1 uv run pytest tests/cli/test_outputs.py` and read in the
diff of that commit, like any other change.
"""

import os
import re
from pathlib import Path

import pytest
from tests.hosts.rendered import rendered
from tests.support.command import run

EXAMPLES = Path(__file__).parents[1] / "sources" / "examples"
OUTPUTS = Path(__file__).parent / "outputs"
FILES = tuple(sorted(path.name for path in EXAMPLES.glob("*.yaml")))
CA = "corp-ca.yaml"
"""Its certificate lasts until 2126."""
ON_FILES = (
    ("validate",),
    ("validate", "-o", "json"),
    ("render",),
    ("render", "-o", "json"),
    ("no-proxy", "merge"),
    ("no-proxy", "merge", "-o", "json"),
    ("userdata",),
)
ALONE = (
    ("manifests",),
    ("manifests", "--part", "rbac", "--openshift"),
    ("manifests", "--part", "rbac", "--controllers", "windows"),
    ("no-proxy", "lint", "10.0.0,*.corp.example,.corp.example"),
    ("no-proxy", "check", "https://api.corp.example", "--no-proxy", ".corp.example"),
    ("payload", "default"),
    ("apply", "-f", "missing"),
)
COMMANDS = (*((*command, "-f", file, "-f", CA) for file in FILES if file != CA for command in ON_FILES), *ALONE)


def held_against(name: str, text: str) -> None:
    kept = OUTPUTS / name
    if os.environ.get("TRANSOM_WRITE_OUTPUTS"):
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(text.encode())
    assert text == kept.read_bytes().decode()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_prints_what_it_printed(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setenv("COLUMNS", "200")
    ran = run(*command)
    name = re.sub(r"[^a-z0-9.]+", "-", " ".join(command)).strip("-")
    held_against(f"{name}.txt", f"exit {ran.code}\n{ran.out}{'== stderr' if ran.err else ''}\n{ran.err}")


@pytest.mark.parametrize("number", range(len(rendered())))
def test_a_host_runs_what_it_ran(number: int) -> None:
    script = rendered()[number]
    held_against(f"script-{number}.txt", f"{script.name}\n{script.content.decode('ascii')}")
