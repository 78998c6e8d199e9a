"""The proxy of all of a Linux machine: a real shell makes the files, and those read them who would."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.support.management.manifests import RFC_LINE, USER, base, cluster, credentials, rendered

from lab import systemd
from transom.capi.bootstrap.kubeadm import Entries
from transom.capi.bootstrap.machine_files import (
    MACHINE_ENV,
    PROFILE,
    SET_MACHINE_ENV,
    build_linux_entries,
    find_runtime_service,
)
from transom.linux.drop_ins import render_shell_lines
from transom.proxy.objects import LinuxSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress

PASSWORD = 'hunter2%^&!"\\é$ x'
ENCODED = "hunter2%25%5E%26%21%22%5C%C3%A9%24%20x"
NAMES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
GENERATOR = "/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator"
NASTY = Egress(
    Secret("http://u:a$b%n`c!'&é@p.x:1"), Secret("http://u:a$b%n`c!'&é@p.x:1"), "svc,10.0.0.0/8,.a.example,localhost"
)


def machine(root: Path, entries: Entries, env: str) -> None:
    """A machine after its entries were carried out; `env` is in the Secret."""
    for name in ("apt", "dnf"):
        (root / "etc" / name).mkdir(parents=True)
    (root / "etc/dnf/dnf.conf").write_text("[main]\ngpgcheck=1\n")
    for file in entries.files:
        path = root / file.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(env if file.path == MACHINE_ENV else file.content)
    assert SET_MACHINE_ENV in entries.pre
    subprocess.run(["sh", root / SET_MACHINE_ENV.split()[1].lstrip("/"), root], check=True, env={"PATH": os.defpath})


def read_by(root: Path) -> dict[str, dict[str, str]]:
    """The variables as each reader has them."""
    manager = (root / "etc/systemd/system.conf.d/transom-proxy.conf").read_text()
    # main.c and load-fragment read both by config_parse_environ
    unit = manager.replace("[Manager]\nDefaultEnvironment=", "[Service]\nEnvironment=")
    home = root / "home"
    home.mkdir()
    (home / "environment.d").symlink_to(root / "etc/environment.d")
    environ = {"PATH": os.defpath, "XDG_CONFIG_HOME": str(home)}
    generated = subprocess.run([GENERATOR], env=environ, capture_output=True, text=True, check=True).stdout
    profile = (root / PROFILE.lstrip("/")).read_text().replace("/etc/transom", str(root / "etc/transom"))
    shells = {"profile": profile, "environment.d": f"set -a\n{generated}"}
    found = {name: _exported(text) for name, text in shells.items()}
    return {"systemd": systemd.read_environment("x.service", unit)} | found


def _exported(text: str) -> dict[str, str]:
    done = subprocess.run(["sh", "-c", f"{text}\nenv -0"], env={"PATH": os.defpath}, capture_output=True, text=True, check=True)
    pairs = (part.partition("=") for part in done.stdout.split("\0") if part)
    return {name: value for name, _, value in pairs if name in NAMES}


def apt(root: Path) -> str:
    file = root / "apt.conf"
    file.write_text(f'Dir::Etc::parts "{root}/etc/apt/apt.conf.d";\n')
    done = subprocess.run(
        ["apt-config", "dump"], check=True, env={"PATH": os.defpath, "APT_CONFIG": str(file)}, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.lab
@pytest.mark.parametrize("egress", [NASTY, Egress(https_proxy=Secret("https://p.x:1"), no_proxy="svc")])
def test_every_reader_has_exactly_the_values(egress: Egress, tmp_path: Path) -> None:
    both = LinuxSettings("Both")
    wanted = Egress(egress.http_proxy, egress.https_proxy, egress.no_proxy, linux=both)
    machine(tmp_path, build_linux_entries("s", wanted), render_shell_lines(wanted).reveal())
    values = {name: value for name in NAMES if (value := wanted.variables.get(name.upper()))}
    assert read_by(tmp_path) == dict.fromkeys(("systemd", "profile", "environment.d"), values)


@pytest.mark.lab
def test_a_password_reaches_apt_and_root_alone(tmp_path: Path) -> None:
    settings = base(linux={"environmentScope": "Both"})
    secret = rendered(settings, credentials(PASSWORD), cluster())["Secret", "mycluster-systemd-proxy"]
    entries = build_linux_entries(
        "mycluster-systemd-proxy", Egress(https_proxy=Secret("http://p"), linux=LinuxSettings("Both"))
    )
    machine(tmp_path, entries, secret["shell"])
    url = f"http://{USER}:{ENCODED}@192.168.52.220:3128"
    assert read_by(tmp_path)["profile"]["HTTPS_PROXY"] == url
    told = apt(tmp_path)
    assert f'Acquire::http::Proxy "{url}";' in told
    assert f'Acquire::https::Proxy "{url}";' in told
    direct = [item for item in RFC_LINE.split(",") if "/" not in item]
    assert [item for item in direct if f'Acquire::https::Proxy::{item} "DIRECT";' in told] == direct
    # whoever reads dnf.conf is not told it
    assert (tmp_path / "etc/dnf/dnf.conf").read_text() == "[main]\ngpgcheck=1\n"
    with_password = [path for path in tmp_path.rglob("*") if path.is_file() and "hunter2" in path.read_text()]
    written = {path.name: path.stat().st_mode & 0o777 for path in with_password if path.name != "machine.env"}
    assert written == dict.fromkeys(("transom-proxy.conf", "90-transom-proxy.conf", "95transom-proxy"), 0o600)
    assert "hunter2" not in str(entries)
    # cloud-init takes what CABPK makes for a template of Jinja
    assert not any(mark in file.content for file in entries.files for mark in ("{{", "{%", "{#"))


def test_dnf_is_told_of_a_proxy_without_a_password_once(tmp_path: Path) -> None:
    wanted = Egress(https_proxy=Secret("http://p.x:1"), no_proxy="svc", linux=LinuxSettings("Both"))
    machine(tmp_path, build_linux_entries("s", wanted), render_shell_lines(wanted).reveal())
    script = tmp_path / SET_MACHINE_ENV.split()[1].lstrip("/")
    subprocess.run(["sh", script, tmp_path], check=True)
    assert (tmp_path / "etc/dnf/dnf.conf").read_text() == "[main]\nproxy=http://p.x:1\ngpgcheck=1\n"


def test_no_proxy_writes_nothing(tmp_path: Path) -> None:
    wanted = Egress(https_proxy=Secret("http://p.x:1"), linux=LinuxSettings("Both"))
    machine(tmp_path, build_linux_entries("s", wanted), "")
    assert not (tmp_path / "etc/systemd/system.conf.d").exists()
    assert _exported((tmp_path / PROFILE.lstrip("/")).read_text().replace("/etc/transom", str(tmp_path / "etc/transom"))) == {}


@pytest.mark.parametrize(
    ("socket", "services"),
    [
        (None, ["containerd", "kubelet"]),
        ("unix:///var/run/containerd/containerd.sock", ["containerd", "kubelet"]),
        ("unix:///var/run/crio/crio.sock", ["crio", "kubelet"]),
        ("unix:///var/run/cri-dockerd.sock", ["docker", "kubelet"]),
    ],
)
def test_the_runtime_that_the_template_names_has_the_drop_in(socket: str | None, services: list[str]) -> None:
    spec = {"joinConfiguration": {"nodeRegistration": {"criSocket": socket} if socket else {}}}
    more = Egress(https_proxy=Secret("http://p"), linux=LinuxSettings(services=("teleport", "kubelet")))
    entries = build_linux_entries("s", more, runtime=find_runtime_service(spec))
    wanted = [f"/etc/systemd/system/{service}.service.d/http-proxy.conf" for service in (*services, "teleport")]
    assert [file.path for file in entries.files] == wanted
    assert f"try-restart {services[0]} teleport" in entries.pre[-1]
