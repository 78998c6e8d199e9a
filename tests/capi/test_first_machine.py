"""The first machine of a management cluster, from the directory that the cluster will have."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.bundles import certificate, config_map
from tests.support.command import run
from tests.support.management.manifests import USER, base, credentials

from lab import systemd

PASSWORD = 'hunter2%^&!"\\é$ x'
URL = f"http://{USER}:hunter2%25%5E%26%21%22%5C%C3%A9%24%20x@192.168.52.220:3128"
NETWORKS = {"serviceNetwork": ["10.96.0.0/12"], "podNetwork": ["10.244.0.0/16"], "machineNetwork": ["10.1.0.0/16"]}


def first_machine(tmp_path: Path, **spec: Any) -> Path:
    bundle = config_map("corp-ca", {"ca-bundle.crt": certificate("corp")})
    values = [base(trustedCA={"name": "corp-ca"}, networks=NETWORKS, **spec), credentials(PASSWORD), bundle]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all(values))
    done = run("render", "-f", str(tmp_path / "all.yaml"), "--first-machine", "--output-dir", str(tmp_path / "out"))
    assert done.code == 0, done.err
    assert "hunter2" not in done.out + done.err
    return tmp_path / "out"


def variables(*commands: str) -> dict[str, str]:
    script = "\n".join((*commands, "env -0"))
    done = subprocess.run(["sh", "-c", script], env={"PATH": os.defpath}, capture_output=True, text=True, check=True)
    return {name: value for name, _, value in (part.partition("=") for part in done.stdout.split("\0")) if "_PROXY" in name}


@pytest.mark.lab
def test_services_kubeadm_and_kind_have_the_proxy(tmp_path: Path) -> None:
    out = first_machine(tmp_path, consumers=["Nodes", "StaticPods"])
    for service in ("containerd", "kubelet"):
        drop_in = (out / f"etc/systemd/system/{service}.service.d/http-proxy.conf").read_text()
        assert systemd.read_environment(f"{service}.service", drop_in)["HTTPS_PROXY"] == URL
    assert (out / "etc/transom/egress-ca.crt").read_text() == certificate("corp")
    # what ends in static pods is what the shell of kubeadm has
    first = (out / "commands.sh").read_text().splitlines()[0].replace("/etc/transom", f"{out}/etc/transom")
    found = variables(first)
    assert (found["HTTP_PROXY"], found["HTTPS_PROXY"]) == (URL, URL)
    assert {"10.96.0.0/12", "10.244.0.0/16", "10.1.0.0/16"} <= set(found["NO_PROXY"].split(","))
    assert variables("set -a", f". {out}/kind.env") == found
    secret = [path for path in out.rglob("*") if path.is_file() and "hunter2" in path.read_text()]
    assert {path.stat().st_mode & 0o777 for path in secret} == {0o600}


def test_static_pods_get_no_credentials_unless_they_are_named(tmp_path: Path) -> None:
    out = first_machine(tmp_path)
    assert not (out / "etc/transom/proxy.env").exists()
    assert "proxy.env" not in (out / "commands.sh").read_text()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([base(consumers=["Apps"]), credentials()]))
    done = run("render", "-f", str(tmp_path), "--first-machine")
    assert (done.code, "--first-machine needs --output-dir" in done.err) == (2, True)
    done = run("render", "-f", str(tmp_path), "--first-machine", "--output-dir", str(tmp_path / "out"))
    assert "nothing for a machine" in done.err
    assert not (tmp_path / "out").exists()
