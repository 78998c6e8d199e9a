"""A person at a terminal, and a script behind a pipe: colours, progress, Ctrl-C, a disk that is full."""

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import NoReturn

import pytest
from tests.cli.terminals import Terminal
from tests.support.bundles import egress_proxy, private_key, secret, write
from tests.support.command import run

from transom.cli.program import run as start

pytestmark = pytest.mark.server
ESCAPE = "\x1b["
COLOURS = ("\x1b[3", "\x1b[9")
"""How an ANSI colour of the foreground begins; bold and the movements of the bar are none."""
UNREACHABLE = {
    "apiVersion": "transom.dev/v1alpha1",
    "kind": "WindowsInstance",
    "metadata": {"name": "win-1"},
    "spec": {"address": "127.0.0.1", "port": 1, "username": "Administrator"},
}


def transom(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "transom", *arguments]


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    (tmp_path / "manifests").mkdir()
    key = secret("cloud-private-key", stringData={"private-key.pem": private_key()})
    return write(tmp_path / "manifests", egress_proxy({"httpProxy": "http://p.x:1"}), UNREACHABLE, key)


def test_progress_and_colours_are_for_a_terminal(manifests: str, tmp_path: Path) -> None:
    """Progress is on stderr, so that JSON stays JSON in a file; what is no terminal gets neither."""
    terminal = Terminal(tmp_path)
    environment = terminal.environment
    command = transom("diff", "-f", manifests)
    piped = subprocess.Popen([*command, "-o", "json"], stdout=subprocess.PIPE, stderr=terminal.far, env=environment)
    shown = terminal.read()
    assert piped.stdout is not None
    (host,) = json.loads(piped.stdout.read())["hosts"]
    assert (host["result"], piped.wait()) == ("failed", 3)
    assert "hosts compared" in shown
    assert any(colour in shown for colour in COLOURS)

    terminal = Terminal(tmp_path)
    plain = subprocess.Popen(command, stdout=terminal.far, stderr=terminal.far, env=environment | {"NO_COLOR": "1"})
    shown = terminal.read()
    assert plain.wait() == 3
    assert "hosts compared" in shown
    assert "1 host: 1 failed" in shown
    assert not any(colour in shown for colour in COLOURS)

    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 3
    assert "1 host: 1 failed: win-1" in done.stdout
    assert "\nwin-1: failed: no connection to port 1" in done.stderr
    assert ESCAPE not in done.stdout + done.stderr
    assert "hosts compared" not in done.stderr


def test_findings_on_a_narrow_terminal_break_between_words(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    manifest = write(tmp_path, egress_proxy({"httpProxy": "proxy.corp.example", "httpsProxy": "ftp://proxy.corp.example:21"}))
    done = subprocess.Popen(
        transom("validate", "-f", manifest), stdout=terminal.far, env=terminal.environment | {"COLUMNS": "60"}
    )
    told = terminal.read().splitlines()
    assert done.wait() == 2
    assert [line for line in told if len(line) > 60 and len(line.split()) > 1] == []
    assert "must begin with http://" in " ".join(" ".join(told).split())


def test_ctrl_c_ends_a_command_that_waits(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = f"https://127.0.0.1:{listener.getsockname()[1]}"
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "hunter2"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        (tmp_path / "config").write_text(json.dumps(kubeconfig))
        environment = Terminal(tmp_path).environment | {"KUBECONFIG": str(tmp_path / "config")}
        # tests that run in the background of a shell ignore Ctrl-C, and so would what they start
        command = ["env", "--default-signal=INT", *transom("validate")]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)
        waiting, _ = listener.accept()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        waiting.close()
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["apply", "rollback"])
def test_ctrl_c_before_any_host_is_touched_says_so(command: str, manifests: str, tmp_path: Path) -> None:
    arguments = ["env", "--default-signal=INT", *transom(command, "-f", manifests, "-f", "-")]
    pipe = subprocess.PIPE
    process = subprocess.Popen(arguments, stdin=pipe, stderr=pipe, text=True, env=Terminal(tmp_path).environment)
    assert process.stdin is not None
    process.stdin.write("# more manifests follow\n")
    process.stdin.flush()
    # the program reads the manifests once the pipe is empty
    while struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))) != (0,):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (130, "transom: stopped by Ctrl-C before anything was done on a host\n")


def test_ctrl_c_while_the_program_starts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def pressed(_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("typer.main.get_command", pressed)
    with pytest.raises(SystemExit) as ended:
        start()
    assert (ended.value.code, capsys.readouterr().err) == (130, "transom: stopped by Ctrl-C before anything was done\n")


@pytest.mark.parametrize("arguments", [("manifests", "--part", "crds"), ("no-proxy", "lint", "a.b", "--client", "go")])
def test_a_disk_that_is_full(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Large and small: also what is written when the program ends."""
    environment = Terminal(tmp_path).environment
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(transom(*arguments), stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (1, "transom: the output: No space left on device\n")


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    environment = Terminal(tmp_path).environment
    check = ("no-proxy", "check", "http://a.b", "--no-proxy", "")
    for arguments in (("manifests", "--image", "registry.example/transom:1"), check):
        process = subprocess.Popen(transom(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_a_directory_that_cannot_be_written_to(tmp_path: Path) -> None:
    environment = Terminal(tmp_path).environment
    (tmp_path / "file").write_text("")
    target = str(tmp_path / "file" / "below")
    done = subprocess.run(
        transom("payload", "default", "--output-dir", target), capture_output=True, text=True, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (1, f"transom: --output-dir {target}: Not a directory\n")


@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&-", ">&-"])
def test_a_full_disk_below_stderr_or_a_closed_stream_costs_no_report(streams: str, manifests: str, tmp_path: Path) -> None:
    command = ["bash", "-c", f"{sys.executable} -m transom diff -f {manifests} {streams}"]
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, env=environment, text=True, check=False)
    assert ran.returncode == 3
    assert (ran.stderr if streams == ">&-" else ran.stdout).count("failed: ") == 1
    assert "Traceback" not in ran.stderr


def test_a_state_directory_that_cannot_be_written_is_named(
    manifests: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    state = tmp_path / "transom"
    state.mkdir()
    (state / "hosts").touch()
    ran = run("diff", "-f", manifests)
    told = f"nothing was done, since it cannot be kept to one command at a time: {state}/hosts: File exists; XDG_STATE_HOME"
    assert told in ran.err
    assert "Transom itself" not in ran.err
