"""The commands of docs/windows-workers.md do what the page says they are for."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from tests.support.repository import DOCS
from typer.testing import CliRunner

from transom.cli.program import build_program

PAGE = (DOCS / "windows-workers.md").read_text("utf-8")
SECTION = PAGE.partition("## Commands")[2].partition("\n## ")[0]
TABLE = "\n".join(line for line in SECTION.splitlines() if line.startswith("|"))
COMMANDS = re.findall(r"`transom (capi [^`]+)`", TABLE)
MANIFESTS = """
apiVersion: transom.dev/v1alpha1
kind: EgressProxy
metadata: {name: cluster}
spec: {httpProxy: "http://proxy.example.com:3128", httpsProxy: "http://proxy.example.com:3128"}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: default}
spec: {controlPlaneEndpoint: {host: prod.example.com, port: 6443}}
"""


def test_the_stories_of_the_proposal_have_their_commands() -> None:
    assert "create Windows workers with Cluster API" in TABLE
    assert "scale them" in TABLE
    assert len(COMMANDS) >= 10


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for directory in ("manifests", "earlier", "templates"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "all.yaml").write_text(MANIFESTS)
    (tmp_path / "inputs.yaml").write_text("cluster: prod\nprovider: vsphere\npreKubeadmCommands: [hostname]\n")
    words = shlex.split(re.split(r"\\\||>", command)[0])
    done = CliRunner().invoke(build_program(), words)
    assert done.exit_code == 0, done.stderr
    if words[1] == "worker":
        kinds = {item["kind"] for item in yaml.safe_load_all(done.stdout)}
        pool = "--machine-pool" in words
        assert ({"MachinePool", "KubeadmConfig"} if pool else {"MachineDeployment", "KubeadmConfigTemplate"}) <= kinds
        assert ("Secret" in kinds) == ("-f" in words)
