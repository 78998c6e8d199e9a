"""Ctrl-C in a run of all tests: workers end what their tests began, and nothing is left."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.repository import ROOT

WORKERS = """
import signal
from tests.support.groups import RunDirectory, register_worker

# what a shell starts in the background ignores it
signal.signal(signal.SIGINT, signal.default_int_handler)

def pytest_configure(config):
    if hasattr(config, "workerinput"):
        register_worker(config)
    else:
        config.pluginmanager.register(RunDirectory())
"""
ASLEEP = """
import os, tempfile, time
from pathlib import Path

def test_asleep():
    assert os.getsid(0) == os.getpid()
    Path("made").write_text(tempfile.mkdtemp())
    Path("begun").touch()
    try:
        time.sleep(4)
        Path("slept").touch()
    finally:
        Path("ending").touch()
        time.sleep(float(os.environ["ENDING"]))
        Path("ended").touch()
"""


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_reaches_workers_at_once_and_leaves_nothing(tmp_path: Path, presses: int) -> None:
    (tmp_path / "conftest.py").write_text(WORKERS)
    (tmp_path / "test_asleep.py").write_text(ASLEEP)
    command = [sys.executable, "-m", "pytest", "-q", "-n1", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    mine = {
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "XDG_CACHE_HOME": str(tmp_path),
        "ENDING": "0" if presses == 1 else "40",
    }
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, **mine}, stdout=subprocess.PIPE, text=True) as run:
        for sign in ("begun", "ending")[:presses]:
            while not (tmp_path / sign).exists() and run.poll() is None:
                time.sleep(0.05)
            run.send_signal(signal.SIGINT)
        output, _ = run.communicate()
    assert run.returncode == (pytest.ExitCode.INTERRUPTED if presses == 1 else -signal.SIGINT), output
    assert (tmp_path / "ended").exists() is (presses == 1)
    assert not (tmp_path / "slept").exists()
    made = Path((tmp_path / "made").read_text())
    assert made.parent.name.startswith("transom-tests-")
    assert not made.parent.exists()


FILES = ("tests/support/test_failures.py", "tests/rollout", "tests/windows/registry")


def test_the_tests_of_a_file_run_on_one_worker_in_their_order() -> None:
    command = [sys.executable, "-m", "pytest", "-v", "-n4", "--dist=loadgroup", "--no-loadscope-reorder", *FILES]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    workers: dict[str, set[str]] = {}
    for worker, file in re.findall(r"^\[(gw\d+)\].*? PASSED (\S+?)::", done.stdout, re.MULTILINE):
        workers.setdefault(file, set()).add(worker)
    assert len(workers) > 4
    assert {file: names for file, names in workers.items() if len(names) > 1} == {}
