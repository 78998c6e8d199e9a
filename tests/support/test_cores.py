"""Workers on cores: who moves, and that all that a worker started moves with it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cores import APART, SLACK, Balance, Look, first_core, group_of_run, move

ROWS = [
    # idle shares, what the workers used, where they are, who goes where
    ({0: 0.0, 1: 0.6}, {"gw0": 0.5, "gw1": 0.4, "gw2": 0.3, "gw3": 0.2}, {"gw0": 0, "gw1": 1, "gw2": 0, "gw3": 0}, ("gw2", 1)),
    # nearly even
    ({0: 0.1, 1: 0.3}, {"gw0": 0.5, "gw1": 0.4}, {"gw0": 0, "gw1": 1}, None),
    # alone on its core: the other one would be as busy
    ({0: 0.0, 1: 0.9}, {"gw0": 1.0, "gw1": 0.1}, {"gw0": 0, "gw1": 1}, None),
    # who waits helps nobody
    ({0: 0.0, 1: 0.5}, {"gw0": 0.97, "gw1": 0.5, "gw2": 0.01}, {"gw0": 0, "gw1": 1, "gw2": 0}, None),
    # the busy core works for somebody else
    ({0: 0.0, 1: 0.9}, {"gw1": 0.1}, {"gw1": 1}, None),
    ({0: 0.5}, {"gw0": 0.5}, {"gw0": 0}, None),
    # of four cores the busiest and the idlest
    ({0: 0.5, 1: 0.1, 2: 0.9, 3: 0.2}, {"gw1": 0.5, "gw5": 0.4}, {"gw1": 1, "gw5": 1}, ("gw5", 2)),
    # one that has just begun
    ({0: 0.0, 1: 0.9}, {}, {"gw0": 0}, None),
]


@pytest.mark.parametrize(("idle", "used", "cores", "moved"), ROWS)
def test_who_moves(idle, used, cores, moved):
    assert move(idle, used, cores) == moved


@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), min_size=1, max_size=8))
def test_a_move_is_towards_balance(workers):
    cores = {f"gw{number}": core for number, (core, _) in enumerate(workers)}
    used = {f"gw{number}": share for number, (_, share) in enumerate(workers)}

    def idle():
        return {core: max(0.0, 1 - sum(used[name] for name in used if cores[name] == core)) for core in (0, 1)}

    before = idle()
    if moved := move(before, used, cores):
        assert abs(before[0] - before[1]) >= APART
        cores[moved[0]] = moved[1]
        assert min(idle().values()) >= min(before.values())


def test_two_looks_are_compared_and_who_has_moved_is_on_the_other_core():
    core, other = first_core("gw0"), first_core("gw0") + 1
    # both begin on the same core
    beside = f"gw{len(os.sched_getaffinity(0))}"
    balance = Balance(Path("no such group"))
    looks = [
        Look(100.0, {core: 7.0, other: 50.0}, {"gw0": 20.0}),
        Look(102.0, {core: 7.0, other: 52.0}, {"gw0": 21.2, beside: 0.8}),
        Look(104.0, {core: 7.0, other: 54.0}, {"gw0": 22.4, beside: 1.6}),
        Look(106.0, {core: 7.8, other: 55.2}, {"gw0": 23.6, beside: 2.4}),
    ]
    # who has just begun stays
    assert balance.chosen(*looks[:2]) == ("gw0", other)
    assert balance.chosen(*looks[1:3]) == ("gw0", other)
    balance.cores["gw0"] = other
    assert balance.chosen(*looks[2:]) is None
    assert balance.chosen(looks[3], Look(107.0, {core: 8.8, other: 55.2}, {"gw0": 24.2, beside: 2.4})) == ("gw0", core)


WORKER = """
import subprocess, sys
from pathlib import Path
from tests.support.cores import join
join("gw0", Path(sys.argv[1]))
shell = subprocess.run(["sh", "-c", "sleep 60 >/dev/null & echo $!"], env={}, stdout=subprocess.PIPE, check=True)
print(shell.stdout.decode(), flush=True)
sys.stdin.read()
"""


@pytest.mark.lab
def test_what_a_worker_started_moves_with_it_and_ends_with_the_run():
    group = group_of_run()
    assert group is not None
    balance = Balance(group)
    balance.start()
    command = [sys.executable, "-c", WORKER, str(group)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin and worker.stdout
        # without its environment, and its parent has ended
        child = int(worker.stdout.readline())
        assert int(Path(f"/proc/{child}/timerslack_ns").read_text()) == SLACK
        for core in range(os.cpu_count() or 1):
            balance.send("gw0", core)
            assert [os.sched_getaffinity(process) for process in (worker.pid, child)] == [{core}, {core}]
        worker.stdin.close()
    balance.end()
    assert not group.exists()
    assert not Path(f"/proc/{child}/exe").exists()
