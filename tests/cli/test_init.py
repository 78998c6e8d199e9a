"""`transom init`: what is written passes `validate`, and a mistake writes nothing."""

import io
from pathlib import Path

import pytest
import yaml
from tests.support.bundles import certificate, private_key
from tests.support.command import run


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "key").write_text(private_key())
    (tmp_path / "ca.pem").write_text(certificate("Corp CA"))
    return tmp_path


def test_options_make_a_directory_that_is_valid(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSOM_PROXY_PASSWORD", "hunter2")
    directory = files / "made"
    options = ("--proxy", "http://p.corp.example:3128", "--no-proxy", ".corp.example", "--proxy-user", "alice")
    hosts = ("--host", "10.0.0.11", "--host", "win-2.corp.example", "--key", str(files / "key"), "--ca", str(files / "ca.pem"))
    made = run("init", str(directory), *options, *hosts, "--api-host", "api.corp.example")
    assert (made.code, made.out) == (0, "")
    assert "hunter2" not in made.err
    assert f"transom apply -f {directory}" in made.err
    ran = run("validate", "-f", str(directory))
    assert ran.code == 0
    assert ran.out.splitlines()[-1].startswith("1 EgressProxy, 2 WindowsInstance: ")
    assert "error" not in ran.out
    assert {file.stat().st_mode & 0o777 for file in directory.iterdir()} == {0o600}
    assert (directory / ".gitignore").read_text().splitlines()[0] == "secrets.yaml"
    again = run("init", str(directory), *options)
    assert (again.code, again.err) == (2, f"transom: {directory}: is there, and not empty: name a new directory\n")


def test_questions_at_a_terminal(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["http://p.corp.example:3128", "", ".corp.example", str(files / "ca.pem"), "10.0.0.11", "", str(files / "key")]

    class Typed(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Typed("\n".join(answers) + "\n"))
    made = run("init", str(files / "made"))
    assert made.code == 0, made.err
    (host,) = yaml.safe_load_all((files / "made" / "hosts.yaml").read_text())
    assert host["spec"] == {"address": "10.0.0.11", "username": "Administrator"}
    assert run("validate", "-f", str(files / "made")).code == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "say the proxy with --proxy http://proxy.example.com:3128"),
        (("--proxy", "p.x:1"), "nothing was written: the manifests would have"),
        (("--proxy", "http://p.x:1", "--host", "10.0.0.1"), "say the SSH key that opens the hosts with --key FILE"),
        (("--proxy", "http://p.x:1", "--ca", "/nowhere"), "--ca /nowhere: cannot be read: No such file or directory"),
        (("--proxy", "http://p.x:1", "--proxy-user", "alice"), "say the password of alice in the environment"),
        (("--simulated", "--host", "10.0.0.1"), "leave --host and --key out"),
    ],
)
def test_what_is_missing_is_asked_for_and_nothing_written(options: tuple[str, ...], told: str, tmp_path: Path) -> None:
    made = run("init", str(tmp_path / "made"), *options)
    assert made.code == 2
    assert told in made.err
    assert not (tmp_path / "made").exists()


def test_no_simulated_host_to_run(tmp_path: Path) -> None:
    told = run("simulate", str(tmp_path))
    assert told.code == 2
    assert "`transom init DIR --simulated` makes one" in told.err
