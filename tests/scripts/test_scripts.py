"""What the scripts do where the network, another installation or the machine itself is in their way. Programs are played."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from tests.support.repository import ROOT
from tests.support.waiting import until

PIP = """
case "$*" in
  *--version*) exit 0 ;;
esac
while [ "$1" != --target ]; do shift; done
echo run >>{place}/runs
mkdir -p "$2/bin"
echo half >"$2/bin/uv"
if [ -e {place}/broken ]; then cat {place}/broken >&2; exit 1; fi
printf '#!/bin/sh\\necho uv 99.0.0\\n' >"$2/bin/uv"
cp "$2/bin/uv" "$2/bin/uvx"
chmod +x "$2/bin/uv"
mkdir -p "$2/go/bin"
printf '#!/bin/sh\\necho go1.99.0\\n' >"$2/go/bin/go"
cp "$2/go/bin/go" "$2/go/bin/gofmt"
chmod +x "$2/go/bin/go"
"""


class Scripts:
    """A copy of the scripts in a clone of their own, with a home, and programs that are found first."""

    def __init__(self, place: Path) -> None:
        self.place, self.clone, self.home = place, place / "clone", place / "home"
        self.tools = self.home / ".cache" / "transom-lab" / "tools"
        shutil.copytree(ROOT / "scripts", self.clone / "scripts")
        self.home.mkdir()
        (place / "bin").mkdir()

    def program(self, name: str, text: str) -> None:
        file = self.place / "bin" / name
        file.write_text(f"#!/bin/bash\n{text.replace('{place}', str(self.place))}\n")
        file.chmod(0o755)

    def command(self, script: str, **environment: str) -> tuple[list[str], dict[str, str]]:
        path = f"{self.place / 'bin'}{os.pathsep}{os.defpath}"
        given = {"PATH": path, "HOME": str(self.home), "TRANSOM_RETRY_SECONDS": "0"}
        return ["bash", "-euc", f"cd {self.clone}; {script}"], given | environment

    def run(self, script: str, **environment: str) -> tuple[int, str]:
        command, given = self.command(script, **environment)
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout + done.stderr

    def runs(self) -> int:
        file = self.place / "runs"
        return len(file.read_text().split()) if file.exists() else 0


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    return Scripts(tmp_path)


SOURCED = ". scripts/environment.sh"
FETCH = """
echo run >>{place}/runs
[ "$(wc -l <{place}/runs)" -gt "$FAILURES" ] || { echo "$MESSAGE" >&2; exit 7; }
"""


@pytest.mark.parametrize(
    ("message", "failures", "runs", "code"),
    [
        ("read: connection reset by peer", 2, 3, 0),
        ("read: connection reset by peer", 9, 4, 7),
        ("nothing that anybody knows", 2, 3, 0),
        ("https://index.example/simple/: invalid peer certificate: UnknownIssuer", 9, 1, 7),
        ("Tunnel connection failed: 407 Proxy Authentication Required", 9, 1, 7),
        ("write: No space left on device", 9, 1, 7),
        ("Could not resolve host: index.example", 9, 2, 7),
    ],
)
def test_what_may_pass_is_tried_again(scripts: Scripts, message: str, failures: int, runs: int, code: int) -> None:
    scripts.program("fetch", FETCH)
    ran = scripts.run(f"{SOURCED}; step fetching retry fetch", MESSAGE=message, FAILURES=str(failures))
    assert (ran[0], scripts.runs()) == (code, runs), ran[1]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        # uv, pip, Go, apt, git
        (
            "error: Failed to fetch: `https://index.example/simple/x/`\n cause: invalid peer certificate: UnknownIssuer",
            ("index.example", "update-ca-certificates", "SSL_CERT_FILE"),
        ),
        (
            "HTTPSConnectionPool(host='index.example', port=443): [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed",
            ("index.example", "update-ca-certificates"),
        ),
        (
            'Get "https://modules.example/x": tls: failed to verify: x509: certificate signed by unknown authority',
            ("modules.example", "update-ca-certificates"),
        ),
        (
            "Err:1 https://mirror.corp.example/debian bookworm: The certificate is NOT trusted. [IP: 10.0.0.1 443]",
            ("mirror.corp.example", "update-ca-certificates"),
        ),
        ("Temporary failure resolving 'debian.example'", ("debian.example", "HTTPS_PROXY")),
        ("https://index.example/simple/: dns error: failed to lookup address information", ("index.example", "HTTPS_PROXY")),
        ("connect to https://index.example/: Connection refused", ("index.example", "HTTPS_PROXY")),
        ("https://index.example/: Tunnel connection failed: 407 Proxy Authentication Required", ("USER:PASSWORD",)),
        ("https://index.example/simple/x/: 403 Forbidden", ("index.example", "UV_DEFAULT_INDEX", "GOPROXY")),
        ("https://index.example/: certificate has expired", ("index.example", "clock")),
        ("write: No space left on device", ("disk is full",)),
    ],
)
def test_a_failure_of_the_network_is_explained(scripts: Scripts, message: str, words: tuple[str, ...]) -> None:
    (scripts.place / "message").write_text(message)
    code, output = scripts.run(f"{SOURCED}; step fetching sh -c 'cat {scripts.place}/message; exit 3'")
    explained = output.partition(message)[2]
    assert code == 3
    assert [word for word in words if word not in explained] == [], output
    assert str(scripts.clone / "build") in explained


def test_sudo_is_named_where_it_takes_the_proxy_away(scripts: Scripts) -> None:
    fails = f"{SOURCED}; step fetching sh -c 'echo https://index.example/: Connection refused; exit 3'"
    assert "sudo -E" in scripts.run(fails, SUDO_USER="alice")[1]
    assert "sudo -E" not in scripts.run(fails)[1]


def test_a_step_is_one_line_and_its_output_is_in_the_log(scripts: Scripts) -> None:
    code, output = scripts.run(f"{SOURCED}; step counting seq 1000")
    assert (code, len(output.splitlines())) == (0, 1)
    (log,) = (scripts.clone / "build").glob("*.log")
    assert log.read_text().splitlines()[-1] == "1000"


async def test_ctrl_c_ends_what_a_step_runs(scripts: Scripts) -> None:
    scripts.program("build", "echo $$ >{place}/pid.new; mv {place}/pid.new {place}/pid; exec sleep 1000")
    command, environment = scripts.command(f"{SOURCED}; step building build; echo and on")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # what was started in the background of a script ignores it, and so does all below
    command = ["env", "--default-signal=INT", *command]
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as run:
        pid = int(await until(lambda: (scripts.place / "pid").exists() and (scripts.place / "pid").read_text()))
        os.killpg(run.pid, signal.SIGINT)
        output = run.communicate()
    assert run.returncode != 0
    assert b"and on" not in output[0]
    await until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize(
    ("version", "runs"), [("0.4.30", 1), ("0.10.12", 1), ("", 1), ("0.11.0", 0), ("0.13.9", 0), ("1.2.3", 0)]
)
def test_an_old_uv_gets_a_newer_one_before_it(scripts: Scripts, version: str, runs: int) -> None:
    scripts.program("python3", PIP)
    scripts.program("uv", f'[ -z "{version}" ] && exit 1; echo "uv {version} (x86_64-unknown-linux-gnu)"')
    code, output = scripts.run("scripts/install uv")
    assert (code, scripts.runs()) == (0, runs), output
    assert (output == "") is (runs == 0)
    found = scripts.run(f"{SOURCED}; command -v uv")[1].strip()
    assert found == str(scripts.tools / "bin" / "uv" if runs else scripts.place / "bin" / "uv")
    # once
    assert scripts.run("scripts/install uv") == (0, "")
    assert scripts.runs() == runs


@pytest.mark.lab
@pytest.mark.parametrize(("version", "runs"), [("go1.13", 1), ("go1.26.5", 1), ("", 1), ("go1.26.6", 0), ("go1.27rc1", 0)])
def test_an_old_go_gets_a_newer_one_before_it(scripts: Scripts, version: str, runs: int) -> None:
    """On a machine that has the demo's packages."""
    scripts.program("python3", PIP)
    scripts.program("uv", "echo uv 0.13.9")
    scripts.program("go", f'[ -z "{version}" ] && exit 1; echo "{version} X:some"')
    code, output = scripts.run("scripts/install demo")
    assert (code, scripts.runs()) == (0, runs), output
    found = scripts.run(f"{SOURCED}; command -v go")[1].strip()
    assert found == str(scripts.tools / "bin" / "go" if runs else scripts.place / "bin" / "go")


def test_half_of_a_download_is_not_an_installation(scripts: Scripts) -> None:
    scripts.program("python3", PIP)
    scripts.program("uv", "exit 1")
    (scripts.place / "broken").write_text("THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE")
    assert scripts.run("scripts/install uv")[0] != 0
    assert scripts.runs() == 1
    assert not (scripts.tools / "bin" / "uv").exists()
    (scripts.place / "broken").write_text("connection reset by peer")
    assert scripts.run("scripts/install uv")[0] != 0
    assert scripts.runs() == 5
    (scripts.place / "broken").unlink()
    assert scripts.run("scripts/install uv")[0] == 0
    assert scripts.run(f"{SOURCED}; uv --version") == (0, "uv 99.0.0\n")


@pytest.mark.parametrize(
    ("program", "text", "words"),
    [
        ("uname", "case $1 in -m) echo aarch64 ;; *) echo Linux ;; esac", ("aarch64", "Debian 12", "amd64", "docker run")),
        ("id", "echo 1000", ("sudo -E scripts/demo",)),
    ],
)
def test_an_unsupported_system_gets_an_alternative(scripts: Scripts, program: str, text: str, words: tuple[str, ...]) -> None:
    scripts.program(program, text)
    code, output = scripts.run("scripts/demo")
    assert code == 2
    assert [word for word in (*words, "pipx install .", "transom demo") if word not in output] == []
    assert len(output.splitlines()) < 10


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ({"HTTPS_PROXY": "http://p:1"}, {"https_proxy": "http://p:1", "HTTPS_PROXY": "http://p:1"}),
        ({"http_proxy": "http://p:1", "no_proxy": "a.b"}, {"HTTP_PROXY": "http://p:1", "NO_PROXY": "a.b"}),
        (
            {"https_proxy": "http://a:1", "HTTPS_PROXY": "http://b:1"},
            {"https_proxy": "http://a:1", "HTTPS_PROXY": "http://a:1"},
        ),
        ({}, {"UV_SYSTEM_CERTS": "true"}),
        ({"UV_SYSTEM_CERTS": "false"}, {"UV_SYSTEM_CERTS": "false"}),
        ({"SSL_CERT_FILE": "/etc/passwd"}, {"REQUESTS_CA_BUNDLE": "/etc/passwd"}),
        ({"REQUESTS_CA_BUNDLE": "/own", "SSL_CERT_FILE": "/etc/passwd"}, {"REQUESTS_CA_BUNDLE": "/own"}),
        ({"PIP_INDEX_URL": "https://m.x/simple"}, {"UV_DEFAULT_INDEX": "https://m.x/simple"}),
        ({"LANG": "de_DE.ISO-8859-1", "LC_ALL": "POSIX"}, {"LC_ALL": "C.UTF-8"}),
        ({"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}, {"GIT_CONFIG_KEY_0": "a.b"}),
    ],
)
def test_the_environment_of_the_programs(scripts: Scripts, given: dict[str, str], known: dict[str, str]) -> None:
    code, output = scripts.run(f"{SOURCED}; env", **given)
    found = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    assert code == 0
    assert {name: found.get(name) for name in known} == known


@pytest.mark.parametrize(
    ("given", "first"),
    [({}, "sync"), ({"UV_DEFAULT_INDEX": "https://m.x/simple"}, "venv"), ({"PIP_INDEX_URL": "https://m.x/simple"}, "venv")],
)
def test_a_mirror_is_asked_for_what_the_lock_has_from_pypi(scripts: Scripts, given: dict[str, str], first: str) -> None:
    scripts.program("uv", 'echo "$*" >>{place}/asked')
    code, output = scripts.run(f"{SOURCED}; sync_environment", **given)
    asked = (scripts.place / "asked").read_text().splitlines()
    assert code == 0, output
    assert asked[0].split()[0] == first
    assert (first == "venv") is any(line.startswith("pip sync") and "--require-hashes" in line for line in asked)


def test_each_script_has_this_environment() -> None:
    """Python scripts run by `uv run`, scripts/e2e has only kubectl and transom, and scripts/notes needs only sed and awk."""
    files = [file for file in sorted((ROOT / "scripts").iterdir()) if file.is_file()]
    shell = {file.name: file.read_text("utf-8") for file in files if file.read_bytes().startswith(b"#!/bin/bash")}
    assert len(shell) >= 10
    assert [name for name, text in shell.items() if '/environment.sh"\n' not in text] == ["e2e", "notes"]


def test_what_is_installed_from_pypi_has_hashes() -> None:
    for name in ("uv", "go"):
        lines = (ROOT / "scripts" / f"{name}-requirements.txt").read_text("utf-8").splitlines()
        pinned = [line for line in lines if not line.startswith(("#", " "))]
        assert len(pinned) == 1
        assert "==" in pinned[0]
        assert any("--hash=sha256:" in line for line in lines)
