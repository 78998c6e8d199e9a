"""What checks manifests in Git: a hook of pre-commit, and an action. Both are `transom validate`."""

import os
import subprocess
import sys
from pathlib import Path

import yaml
from tests.support.repository import ROOT


def test_the_hook_and_the_action_find_what_is_wrong(tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    (step,) = action["runs"]["steps"]
    called = step["run"].splitlines()[-1].replace('"$RUNNER_TEMP/transom/bin/python"', "python")
    manifest = tmp_path / "egress.yaml"
    environment = {"PATH": os.pathsep.join((str(Path(sys.executable).parent), os.defpath)), "MANIFESTS": str(tmp_path)}
    environment["GITHUB_ACTION_PATH"] = str(ROOT)
    for url, code in (("http://p.x:1", 0), ("ftp://p.x:1", 2)):
        manifest.write_text(
            "apiVersion: transom.dev/v1alpha1\nkind: EgressProxy\nmetadata: {name: cluster}\nspec:\n" + f"  httpProxy: {url}\n"
        )
        for line in (called, f"{hook['entry']} -f {tmp_path}"):
            ran = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, check=False)
            assert (ran.returncode, "spec.httpProxy" in ran.stdout) == (code, code == 2), ran.stdout + ran.stderr
