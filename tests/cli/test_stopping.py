"""Signals that stop a command: in order, within the time that it announces, and a second one at once."""

import ast
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.cluster_server import Cluster, serving
from tests.cli.servers import kubeconfig

import transom.cli

PATIENCE = 120.0
"""Seconds in which everything here has ended, whatever else the machine does."""
FRAME = """
import asyncio, contextlib, time
from transom.cli.output import Format, print_data
from transom.cli.stopping import StopPlan, register_stop_plan, handle_signals, run_until_stopped

def plan():
    return StopPlan("finishing win-1", {seconds}, "win-1 may be half changed")

async def work():
    print("ready", flush=True)
    try:
{body}
    except asyncio.CancelledError:
{called_off}
        print("in order", flush=True)
        raise

with handle_signals(), register_stop_plan(plan):
    run_until_stopped(work())
print("not stopped")
"""
WAITS, BLOCKS, THREAD = (
    "await asyncio.sleep(3600)",
    "time.sleep(3600)",
    "await asyncio.to_thread(time.sleep, 3600)",
)


def program(body: str, called_off: str = "pass", seconds: float = 3000.0) -> list[str]:
    text = FRAME.format(body=textwrap.indent(body, " " * 8), called_off=textwrap.indent(called_off, " " * 8), seconds=seconds)
    return [sys.executable, "-c", text]


@contextmanager
def begun(command: list[str], **options: object) -> Iterator["subprocess.Popen[str]"]:
    """A process in a group of its own, once it has written its first line."""
    # tests that run in the background of a shell ignore Ctrl-C, and so would what they start
    whole = ["env", "--default-signal=INT,TERM,HUP", *command]
    pipe = subprocess.PIPE
    process = subprocess.Popen(whole, stdout=pipe, stderr=pipe, text=True, start_new_session=True, **options)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ended(process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[str, str]:
    """What a process wrote that has to end by itself."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    return out, err


def ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def wait_until_asleep(process: "subprocess.Popen[Any]") -> None:
    """Wait until a process sleeps in the kernel. Python handles a signal that arrives just before such a call only after it."""
    deadline = time.monotonic() + PATIENCE
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_until_second_signal_counts(process: "subprocess.Popen[Any]") -> None:
    """Wait until the first signal was handled, and then until one that follows is no longer the same press."""
    deadline = time.monotonic() + PATIENCE
    while not re.search(r"^ShdPnd:\s*0+$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    wait_until_asleep(process)
    time.sleep(0.3)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("body", [WAITS, THREAD])
def test_the_first_signal_ends_it_in_order(body: str, number: signal.Signals) -> None:
    with begun(program(body)) as process:
        ready(process)
        os.killpg(process.pid, number)
        out, err = ended(process, number)
    assert out == "in order\n"
    assert err.count("finishing win-1 (at most 3000 s)") == 1


@pytest.mark.parametrize("called_off", [WAITS, BLOCKS, THREAD])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_takes_longer_than_it_said_is_left(called_off: str, number: signal.Signals) -> None:
    with begun(program(WAITS, called_off, seconds=1)) as process:
        ready(process)
        process.send_signal(number)
        out, err = ended(process, number)
    assert out == ""
    assert "finishing win-1 (at most 1 s)" in err and "win-1 may be half changed" in err


@pytest.mark.parametrize("body", [WAITS, BLOCKS])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_it_at_once(body: str, second: signal.Signals) -> None:
    with begun(program(body, "await asyncio.sleep(3600)")) as process:
        ready(process)
        wait_until_asleep(process)
        process.send_signal(signal.SIGINT)
        wait_until_second_signal_counts(process)
        process.send_signal(second)
        out, err = ended(process, signal.SIGINT)
    assert (out, err.count("win-1 may be half changed")) == ("", 1)


LATE = """
import os, signal
from transom.cli.output import Format, print_data
from transom.cli.stopping import handle_signals, run_until_stopped

async def work():
    return {"hosts": ["win-1"]}

with handle_signals():
    done = run_until_stopped(work(), reports=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print_data(done, Format.JSON)
"""


def test_a_signal_after_the_work_keeps_no_report_back() -> None:
    with begun([sys.executable, "-c", LATE]) as process:
        out, err = ended(process, signal.SIGTERM)
    assert json.loads(out) == {"hosts": ["win-1"]}
    assert err == "transom: stopped by SIGTERM\n"


def test_signals_that_come_together_are_one_press() -> None:
    """As those of `timeout`, which sends its own to the process and to its group."""
    with begun(program(WAITS, "await asyncio.sleep(0.5)")) as process:
        ready(process)
        process.send_signal(signal.SIGTERM)
        os.killpg(process.pid, signal.SIGTERM)
        out, _ = ended(process, signal.SIGTERM)
    assert out == "in order\n"


def test_a_terminal_that_is_gone_tells_it_twice() -> None:
    with begun(program(WAITS, "await asyncio.sleep(1)")) as process:
        ready(process)
        process.send_signal(signal.SIGHUP)
        wait_until_second_signal_counts(process)
        process.send_signal(signal.SIGHUP)
        out, _ = ended(process, signal.SIGHUP)
    assert out == "in order\n"


def test_a_signal_that_is_ignored_stays_so() -> None:
    with begun(["nohup", *program(WAITS)], stdin=subprocess.DEVNULL) as process:
        ready(process)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        _, err = ended(process, signal.SIGTERM)
    assert "SIGTERM: finishing win-1" in err


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_report_that_is_being_written_is_written_whole(number: signal.Signals, unbuffered: str) -> None:
    """Also into a pipe that nobody reads from just then."""
    environment = {"PATH": os.defpath, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "transom", "manifests", "--image", "registry.example/transom:1", "-o", "json"]
    with begun(command, env=environment) as process:
        assert process.stdout is not None
        # the report is more than a pipe holds
        while _held(process.stdout.fileno()) < _FULL:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        time.sleep(0.2)
        out, err = ended(process, number)
    assert json.loads(out)["kind"] == "List"
    assert err.count("stopped by") == 1


_FULL = 60_000
"""Bytes of a pipe that has no room for a page more."""


def _held(pipe: int) -> int:
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_before_anything_is_imported(number: signal.Signals, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "typer.py").write_text(f"open({str(gate)!r}).read()")
    environment = {"PATH": os.defpath, "PYTHONPATH": str(tmp_path)}
    with begun([sys.executable, "-m", "transom", "apply", "-f", str(tmp_path)], env=environment) as process, gate.open("w"):
        process.send_signal(number)
        out, err = ended(process, number)
    assert (out, err.count("stopped by")) == ("", 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_at_a_prompt(number: signal.Signals, tmp_path: Path) -> None:
    near, far = pty.openpty()
    command = ["env", "--default-signal=INT,TERM", sys.executable, "-m", "transom", "init", str(tmp_path / "made")]
    environment = {"PATH": os.defpath, "HOME": str(tmp_path), "TERM": "dumb"}
    process = subprocess.Popen(command, stdin=far, stdout=far, stderr=far, env=environment, start_new_session=True)
    try:
        output = b""
        while b":" not in output:
            output += os.read(near, 4096)
        wait_until_asleep(process)
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE) == 128 + number
    finally:
        process.kill()
        process.wait()
    os.close(near)
    os.close(far)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_server_ends_in_order(number: signal.Signals, tmp_path: Path) -> None:
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    transom_ = [sys.executable, "-m", "transom"]
    made = str(tmp_path / "made")
    subprocess.run([*transom_, "init", made, "--simulated"], env=environment, check=True, capture_output=True)
    with begun([*transom_, "simulate", made], env=environment) as process:
        assert process.stdout is not None
        assert "simulated Windows host" in process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "transom: the simulated hosts are gone\n")


PEER = "/api/v1/namespaces/openshift-windows-machine-config-operator"


class Standstill(Cluster):
    """Answers what is asked before the nodes of the peer."""

    def __init__(self) -> None:
        super().__init__({f"{PEER}/configmaps": []})
        metadata = {"name": "cloud-private-key", "namespace": PEER.rpartition("/")[2]}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"private-key.pem": "a2V5"}}
        self.texts = {f"{PEER}/secrets/cloud-private-key": json.dumps(secret)}
        self.reached, self.released = threading.Event(), threading.Event()

    def answer(self, url: str) -> tuple[int, dict[str, Any]]:
        if url.startswith("/api/v1/nodes") and "openshift" in url:
            self.reached.set()
            self.released.wait(PATIENCE)
        return super().answer(url)


def test_an_adoption_says_how_far_it_came(tmp_path: Path) -> None:
    with serving(Standstill()) as cluster:
        assert isinstance(cluster, Standstill)
        config = kubeconfig(tmp_path / "config", cluster.url)
        command = [sys.executable, "-m", "transom", "adopt", "--from", "wmco", "--kubeconfig", config, "-o", "json"]
        with begun(command, env={"PATH": os.defpath, "HOME": str(tmp_path)}) as process:
            assert cluster.reached.wait(PATIENCE)
            process.send_signal(signal.SIGTERM)
            out, err = ended(process, signal.SIGTERM)
        cluster.released.set()
    assert [(load["kind"], load["name"], load["result"]) for load in json.loads(out)] == [
        ("Secret", "cloud-private-key", "to take over")
    ]
    assert err.count("stopped by SIGTERM") == 1


def test_every_command_runs_its_loop_by_what_handles_signals() -> None:
    """Servers take them themselves; what completes a word for a shell is ended by it."""
    servers = {"run.py", "webhook.py", "simulate.py", "completion.py"}
    for path in sorted(Path(transom.cli.__file__).parent.rglob("*.py")):
        calls = {ast.unparse(item.func) for item in ast.walk(ast.parse(path.read_text())) if isinstance(item, ast.Call)}
        assert path.name in servers or "asyncio.run" not in calls, path.name
