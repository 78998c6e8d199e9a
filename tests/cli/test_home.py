"""No home directory, and no name: a container that runs as a number. What needs neither works; the rest says what to set."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.cli.servers import kubeconfig, saying
from tests.support.bundles import egress_proxy, private_key, secret, write

pytestmark = pytest.mark.server
NUMBER = "54321"
"""A user that no system has."""
INSTANCE = {
    "apiVersion": "transom.dev/v1alpha1",
    "kind": "WindowsInstance",
    "metadata": {"name": "win-1", "namespace": "transom-system"},
    "spec": {"address": "127.0.0.1", "port": 1, "username": "Administrator"},
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    key = secret("cloud-private-key", stringData={"private-key.pem": private_key()})
    (tmp_path / "lab").mkdir()
    write(
        tmp_path / "lab",
        egress_proxy({"httpProxy": "http://p.x:1", "httpsProxy": "http://p.x:1", "noProxy": "*"}),
        INSTANCE,
        key,
    )
    (tmp_path / "key").write_text(private_key())
    return tmp_path


def ran(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of a user without an entry, in an environment of these variables alone."""
    user = ("setpriv", f"--reuid={NUMBER}", f"--regid={NUMBER}", "--clear-groups")
    # the interpreter may lie where only root may look
    may_read = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
    return subprocess.run(
        [*user, *may_read, sys.executable, "-m", "transom", *arguments],
        cwd=directory,
        env={"PATH": os.defpath, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


WITHOUT_STATE = {
    "validate": (("validate", "-f", "lab"), 0),
    "doctor": (("doctor", "-f", "lab"), 0),
    "init": (("init", "made", "--proxy", "http://p.x:1", "--host", "127.0.0.1", "--key", "key"), 0),
    "init, with a home": (("init", "made", "--proxy", "http://p.x:1", "--host", "127.0.0.1", "--key", "~/key"), 2),
    "trust": (("trust", "inspect", "key"), 2),
    "no kubeconfig": (("status",), 2),
    "version": (("version", "--client"), 0),
}


@pytest.mark.parametrize("name", WITHOUT_STATE)
@pytest.mark.parametrize("environment", [{}, {"HOME": ""}], ids=["no HOME", "an empty HOME"])
def test_a_command_that_keeps_nothing_works(name: str, environment: dict[str, str], directory: Path) -> None:
    arguments, code = WITHOUT_STATE[name]
    done = ran(directory, *arguments, **environment)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [("diff",), ("apply",), ("rollback", "--dry-run"), ("status",), ("facts", "win-1")])
def test_a_command_that_keeps_something_says_which_variable(command: tuple[str, ...], directory: Path) -> None:
    done = ran(directory, *command, "-f", "lab")
    assert done.returncode == 1, done.stderr
    assert "HOME" in done.stderr
    assert "XDG_STATE_HOME" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [("diff",), ("apply",), ("status",)])
def test_it_works_with_that_variable(command: tuple[str, ...], directory: Path) -> None:
    """The host is asked: nothing that SSH wants of a home or a name is in the way."""
    # pytest's own directories are closed to that user
    with tempfile.TemporaryDirectory() as state:
        Path(state).chmod(0o777)
        done = ran(directory, *command, "-f", "lab", XDG_STATE_HOME=state)
    assert done.returncode == {"diff": 3, "apply": 1, "status": 0}[command[0]], done.stderr
    assert ("no connection to port 1: connection refused" in done.stdout) == (command != ("status",))
    assert "Traceback" not in done.stderr


def test_a_home_that_cannot_be_written_to(directory: Path) -> None:
    for home in ("/proc", "/dev/null", str(directory / "key")):
        done = ran(directory, "diff", "-f", "lab", HOME=home)
        assert done.returncode == 1, done.stderr
        assert "XDG_STATE_HOME" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_kubeconfig_below_the_home(directory: Path) -> None:
    with saying(403, "Forbidden", "no") as url:
        kubeconfig(directory / "config", url)
        known = ran(directory, "status", KUBECONFIG="~/config", HOME=str(directory))
        unknown = ran(directory, "status", KUBECONFIG="~/config")
    assert (known.returncode, "Forbidden" in known.stderr or "no" in known.stderr) == (1, True)
    assert (unknown.returncode, "~/config" in unknown.stderr) == (2, True)
    assert "Traceback" not in unknown.stderr
