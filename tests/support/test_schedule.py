"""The order of tests: whole, shared servers once, the longest first, nobody alone at the end. Servers end with their tests."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.schedule import LONG, SHORT, Planned, drawn, next_group, plan


def rows(file: str, *seconds: float, server: str = "", shares: bool = False) -> list[Planned]:
    return [Planned(f"{file}::t{number}", file, each, server, shares) for number, each in enumerate(seconds)]


def test_the_longest_first_and_a_short_one_ends_it():
    tests = [*rows("a", 0.1, 0.2), *rows("b", 5, 4), *rows("c", 60), *rows("d", 0.4), *rows("e", 30)]
    groups = [[test.name for test in group.tests] for group in plan(tests, 2)]
    assert groups == [["c::t0", "a::t0", "a::t1"], ["e::t0", "d::t0"], ["b::t0", "b::t1"]]


def test_a_long_test_leaves_its_file_unless_it_shares_something_there():
    assert len(plan(rows("a", 50, 2, 40), 2)) == 3
    assert len(plan(rows("a", 50, 2, 40, shares=True), 2)) == 1


def test_a_server_is_started_once_and_once_more_where_its_tests_are_most_of_all():
    few = [*rows("a/x", 10, server="a plane"), *rows("a/y", 10, server="a plane"), *rows("b", *[15.0] * 10)]
    assert [group.name for group in plan(few, 2)] == ["b", "a plane"]
    many = [*rows("a/x", 90, server="a plane"), *rows("a/y", 90, server="a plane"), *rows("b", 15)]
    assert [group.name for group in plan(many, 2)] == ["a plane 1", "a plane 2", "b"]


def test_what_computes_and_what_waits_go_side_by_side():
    loads = {"waits long": 0.1, "computes": 0.9, "waits": 0.2, "computes a little": 0.5}
    assert next_group(loads, loads, average=0.3, others=0.5) == "waits long"
    assert next_group(loads, loads, average=0.3, others=0.2) == "computes"
    assert next_group(["waits", "waits long"], loads, average=0.3, others=0.2) == "waits"
    assert next_group(["computes a little", "computes"], loads, average=0.3, others=0.9) == "computes a little"


def test_another_order_by_a_seed():
    tests = [*rows("a", 1, 2, 3, 4), *rows("b", 5, 6, 7), *rows("c", 8)]
    orders = [drawn(tests, str(seed)) for seed in range(5)]
    assert orders[0] == drawn(tests, "0")
    assert len({tuple(order) for order in orders}) > 1
    for order in orders:
        assert sorted(order, key=lambda test: test.file) == tests


FILES = st.lists(
    st.tuples(st.lists(st.floats(0, 300), min_size=1, max_size=5), st.sampled_from(["", "a plane", "b plane"]), st.booleans())
)


@given(FILES, st.integers(1, 5))
def test_every_test_once(files, workers):
    tests = [
        test
        for number, (seconds, server, shares) in enumerate(files)
        for test in rows(f"f{number}", *seconds, server=server, shares=shares)
    ]
    groups = plan(tests, workers)
    placed = [test for group in groups for test in group.tests]
    assert sorted(placed, key=lambda test: test.name) == sorted(tests, key=lambda test: test.name)
    assert len({group.name for group in groups}) == len(groups)
    assert [group.seconds for group in groups] == sorted((group.seconds for group in groups), reverse=True)
    for group in groups:
        for file in {test.file for test in group.tests}:
            order = [test for test in group.tests if test.file == file]
            assert order == [test for test in tests if test in order]
    unused = {group.tests[0].file for group in groups if group.seconds < SHORT}
    for group in groups:
        if group.seconds >= LONG and len(group.tests) == 1:
            assert unused <= {group.tests[0].file}


FIXTURES = """
import pytest
from tests.support.schedule import leave_servers

pytest_plugins = ("tests_of_a_plugin",)

def noted(name):
    print(name, "up")
    yield
    print(name, "down")

@pytest.fixture(scope="session")
def control_plane():
    yield from noted("control plane")

@pytest.fixture(scope="session")
def depends(control_plane):
    yield from noted("what depends on it")

@pytest.fixture(scope="session")
def cheap():
    yield from noted("cheap")

@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    yield
    leave_servers(item, nextitem)
"""
PLUGIN = """
import pytest

@pytest.fixture(scope="session")
def machine():
    print("machine up")
    yield
    print("machine down")
"""


def test_a_server_ends_with_the_last_test_in_turn_that_uses_it(tmp_path: Path):
    below = tmp_path / "tests"
    below.mkdir()
    (below / "conftest.py").write_text(FIXTURES)
    (tmp_path / "tests_of_a_plugin.py").write_text(PLUGIN)
    uses = ("cheap", "control_plane", "control_plane, depends", "control_plane, machine", "machine", "", "machine")
    tests = "\n".join(f"def test_{number}({names}): print('test', {number})" for number, names in enumerate(uses, 1))
    (below / "test_users.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(below)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    said = [line.lstrip(".") for line in done.stdout.splitlines() if line.lstrip(".").endswith(("up", "down", *"1234567"))]
    assert said == [
        *("cheap up", "test 1", "control plane up", "test 2", "what depends on it up", "test 3", "machine up", "test 4"),
        *("what depends on it down", "control plane down", "test 5", "machine down", "test 6"),
        *("machine up", "test 7", "machine down", "cheap down"),
    ]


WORKERS = """
import signal
from tests.support.schedule import Schedule, Worker

# what a shell starts in the background ignores it
signal.signal(signal.SIGINT, signal.default_int_handler)

def pytest_configure(config):
    config.pluginmanager.register(Worker(config) if hasattr(config, "workerinput") else Schedule())
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
        said, _ = run.communicate()
    assert run.returncode == (pytest.ExitCode.INTERRUPTED if presses == 1 else -signal.SIGINT), said
    assert "once more Ctrl-C kills it" in said
    assert (tmp_path / "ended").exists() is (presses == 1)
    assert not (tmp_path / "slept").exists()
    made = Path((tmp_path / "made").read_text())
    assert made.parent.name.startswith("transom-tests-")
    assert not made.parent.exists()
