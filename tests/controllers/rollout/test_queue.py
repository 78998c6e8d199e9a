"""Whose turn it is, without hosts: what the operator asks its rollouts, and whom that asks for."""

import pytest
from tests.support.turns import Desk, Statuses, digest, marked, target

from transom.apply.roll_out import has_settings_change
from transom.hosts.errors import RestartsFailed, Unreachable
from transom.hosts.passes.base_pass import PassResult
from transom.windows.host.host_state import Step
from transom.windows.nodes.fetch import FetchAttempt
from transom.windows.planning.planner import Plan

WELL = PassResult(plan=Plan(forget=True), begun=True)
FAILED = PassResult(plan=Plan(forget=True), begun=True, error=RestartsFailed("kubelet does not run"))
NOT_OUT = PassResult(plan=Plan(forget=True), begun=True, fetched=(FetchAttempt(0, 60),))
NOTHING = PassResult(plan=Plan())


def desk(hosts: int) -> Desk:
    return Desk(Statuses(hosts))


async def test_hosts_wait_for_the_canary_and_are_asked_for_in_order() -> None:
    operator = desk(30)
    rollout = await operator.begin(target(0))
    assert rollout is not None
    assert [await operator.begin(target(number)) for number in range(1, 30)] == [None] * 29
    assert operator.asked == []
    operator.end(rollout, target(0), WELL)
    assert operator.asked == ["win-1", "win-2"]


async def test_hosts_that_are_known_to_differ_are_not_read_before_their_turn() -> None:
    operator = desk(30)
    rollout = await operator.rollouts.get_or_open(target(0), digest)
    assert [rollout.queue.request_read(f"win-{n}", operator.ask(target(n)), is_different=True) for n in range(3)] == [
        True,
        False,
        False,
    ]
    operator.end(rollout, target(0), PassResult(error=Unreachable("no answer")))
    assert operator.asked == ["win-1"]
    rollout = await desk(30).rollouts.get_or_open(target(0), digest)
    assert all(rollout.queue.request_read(f"win-{n}", operator.ask(target(n))) for n in range(3))


async def test_one_that_is_silent_while_it_is_read_keeps_nobody_waiting() -> None:
    operator = desk(30)
    rollout = await operator.rollouts.get_or_open(target(0), digest)
    assert rollout.queue.request_read("win-0", operator.ask(target(0)), is_different=True)
    assert not rollout.queue.request_read("win-1", operator.ask(target(1)), is_different=True)
    rollout.queue.stop_waiting_for("win-0")
    assert operator.asked == ["win-1"]
    assert await operator.begin(target(1), differs=True) is rollout
    # it answers at last: whose turn it is was decided meanwhile
    assert not rollout.queue.admit("win-0", operator.ask(target(0)))
    rollout.queue.stop_waiting_for("win-1")
    assert await operator.begin(target(2), differs=True) is None


async def test_what_comes_out_of_an_older_rollout_touches_no_newer_one() -> None:
    """The turn of the newer one is nobody else's, however many of the older one come out."""
    operator = desk(30)
    olds = [target(number, "http://before") for number in range(3)]
    begun = []
    for old in olds:
        if (rollout := await operator.begin(old)) is not None:
            begun.append((rollout, old))
            operator.end(rollout, old, WELL)
    older, _ = begun[0]
    assert older.queue.admit("win-3", operator.ask(target(3)))
    newer = await operator.begin(target(0))
    assert newer is not None
    assert newer is not older
    assert await operator.begin(target(1)) is None
    operator.end(older, target(3, "http://before"), WELL)
    assert not older.queue.admit("win-4", operator.ask(target(4)))
    assert operator.rollouts.find(target(0)) is newer
    assert (newer.state.in_progress, newer.state.passed) == ({"win-0"}, frozenset())
    assert "win-1" not in operator.asked
    assert await operator.begin(target(1)) is None
    operator.end(newer, target(0), NOT_OUT)
    operator.end(newer, target(0), FAILED)


async def test_a_pass_with_settings_that_were_edited_meanwhile_admits_nobody() -> None:
    operator = desk(30)
    operator.statuses.newest = target(0).egress
    rollout = await operator.begin(target(0))
    assert rollout is not None
    assert await operator.begin(target(1, "http://before")) is None
    stale = await operator.rollouts.get_or_open(target(1, "http://before"), digest)
    stale.record_result("win-1", "failed")
    stale.record_result("win-2", "failed")
    assert operator.rollouts.find(target(0)) is rollout
    assert operator.halted == "False/NotHalted"


async def test_an_older_result_does_not_set_a_halted_rollout_going() -> None:
    operator = desk(40)
    older = await operator.begin(target(9, "http://before"))
    assert older is not None
    for number in (0, 1):
        rollout = await operator.begin(target(number))
        assert rollout is not None
        operator.end(rollout, target(number), FAILED)
    assert operator.halted == "True/TwoFailures"
    operator.end(older, target(9, "http://before"), WELL)
    assert operator.halted == "True/TwoFailures"
    assert await operator.begin(target(2)) is None


async def test_the_turn_of_a_host_that_is_gone_goes_to_the_next_one() -> None:
    operator = desk(30)
    rollout = await operator.begin(target(0))
    assert rollout is not None
    assert await operator.begin(target(1)) is None
    assert await operator.begin(target(2)) is None
    operator.end(rollout, target(0), PassResult(error=Unreachable("no answer")))
    assert operator.asked == ["win-1"]
    operator.rollouts.release_turn("win-1")
    assert operator.asked == ["win-1", "win-2"]
    operator.rollouts.release_turn("win-9")
    assert len(operator.asked) == 2


async def test_a_canary_that_does_not_get_out_stops_it_at_once() -> None:
    operator = desk(30)
    checked = [target(number, "http://one", "https://x") for number in range(3)]
    rollout = await operator.begin(checked[0])
    assert rollout is not None
    operator.end(rollout, checked[0], NOT_OUT)
    assert not rollout.queue.request_read("win-1", operator.ask(checked[1]), is_different=True)
    assert operator.halted == "True/EgressFails"
    assert "win-0" in operator.reports.get_conditions("cluster")["RolloutHalted"].message
    why = "not changed: the rollout stopped at its first host, which has no egress with these settings (win-0)"
    assert rollout.queue.get_halt_reason("win-1") == why
    # the next leader knows it by the status of that host
    after = Desk(operator.statuses)
    rollout = await after.rollouts.get_or_open(checked[1], digest)
    assert rollout.queue.get_halt_reason("win-1") == why
    assert after.halted == "True/EgressFails"


@pytest.mark.parametrize("how", ["endpoint", "annotation"])
async def test_a_halt_is_ended_by_another_endpoint_or_by_a_word(how: str) -> None:
    operator = desk(3)
    checked = [target(number, "http://one", "https://wrong") for number in range(3)]
    rollout = await operator.begin(checked[0])
    assert rollout is not None
    operator.end(rollout, checked[0], NOT_OUT)
    if how == "endpoint":
        checked = [target(number, "http://one", "https://mended") for number in range(3)]
    else:
        operator.statuses.resumed = "now"
    mended = await operator.rollouts.get_or_open(checked[0], digest)
    # it has what it should have: nothing is restarted
    mended.record_result("win-0", "conforming")
    assert operator.halted == "False/NotHalted"
    for number in (1, 2):
        rollout = await operator.begin(checked[number])
        assert rollout is not None
        operator.end(rollout, checked[number], WELL)
    assert mended.state.completed
    if how == "annotation":
        # each word counts once: the next leader knows it, too
        operator = Desk(operator.statuses)
        rollout = await operator.rollouts.get_or_open(checked[1], digest)
        assert (rollout.state.passed, rollout.queue.halted) == ({"win-1", "win-2"}, False)


async def test_after_a_halt_and_a_restart_hosts_are_read_and_none_is_changed() -> None:
    """Those that an earlier process changed say so; those that it left say why, once."""
    operator = desk(30)
    for number in (0, 1):
        rollout = await operator.begin(target(number))
        assert rollout is not None
        operator.end(rollout, target(number), FAILED)
    assert marked(operator.statuses, "failed") == ["win-0", "win-1"]
    operator = Desk(operator.statuses)
    rollout = await operator.rollouts.get_or_open(target(2), digest)
    for number in range(2, 30):
        name, ask = f"win-{number}", operator.ask(target(number))
        assert rollout.queue.request_read(name, ask)
        if number % 2:
            assert not rollout.queue.admit(name, ask)
            rollout.queue.finish_read(name)
            assert (rollout.queue.get_halt_reason(name) or "").startswith("not changed: the rollout stopped after 2 failures")
        else:
            rollout.record_result(name, "conforming")
    assert operator.asked == []
    assert not rollout.queue.request_read("win-5", operator.ask(target(5)), is_different=True)
    assert rollout.queue.request_read("win-5", operator.ask(target(5)), is_different=True, is_check_due=True)
    # those that failed may be connected to at any time
    assert rollout.queue.request_read("win-1", operator.ask(target(1)), is_different=True)


async def test_two_failures_are_told_and_an_edit_begins_anew() -> None:
    operator = desk(30)
    for number in (0, 1):
        rollout = await operator.begin(target(number))
        assert rollout is not None
        assert await operator.begin(target(7)) is None
        operator.end(rollout, target(number), FAILED)
    said = operator.reports.get_conditions("cluster")["RolloutHalted"]
    assert (said.status, said.reason) == ("True", "TwoFailures")
    assert "2 hosts failed with these settings (win-0, win-1); 0 are healthy" in said.message
    assert operator.asked.count("win-7") == 2
    assert await operator.begin(target(7)) is None
    assert rollout is not None
    assert rollout.queue.get_halt_reason("win-7") == "not changed: the rollout stopped after 2 failures (win-0, win-1)"
    operator.rollouts.release_turn("win-7")
    assert operator.asked.count("win-7") == 2
    assert await operator.begin(target(7, "http://two")) is not None
    assert operator.halted == "False/NotHalted"


async def test_failures_of_different_weeks_freeze_nobody() -> None:
    operator = desk(50)
    for number in range(50):
        rollout = await operator.begin(target(number))
        assert rollout is not None
        operator.end(rollout, target(number), WELL)
    for process in range(2):
        operator = Desk(operator.statuses) if process else operator
        for number in (3, 4, 7, 8):
            rollout = await operator.begin(target(number))
            assert rollout is not None
            operator.end(rollout, target(number), FAILED)
        assert operator.halted == "False/NotHalted"
        operator.statuses.marks["win-50"] = ""
        operator.rollouts.add_host(None, "win-50")
        assert await operator.begin(target(50)) is not None
        assert all([await operator.begin(target(number)) is not None for number in range(10, 50)])


async def test_a_new_leader_says_that_nothing_is_halted() -> None:
    operator = desk(3)
    await operator.rollouts.get_or_open(target(0), digest)
    assert operator.halted == "False/NotHalted"


async def test_a_paused_canary_keeps_nobody_waiting() -> None:
    operator = desk(3)
    rollout = await operator.begin(target(0))
    assert rollout is not None
    assert await operator.begin(target(1)) is None
    operator.rollouts.release_host("win-0")
    assert operator.asked == ["win-1"]
    operator.rollouts.remove_host(None, "win-0")
    assert rollout.state.hosts == {"win-1", "win-2"}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), False),
        ((Step("service-environment", "kubelet: HTTP_PROXY", "replace", "r"),), True),
        ((Step("machine-environment", "machine: HTTP_PROXY", "add", "r"),), True),
        ((Step("certificate", "ROOT\\AB", "remove", "r"), Step("file", "C:\\k\\x", "add", "r")), True),
        ((Step("file", "C:\\k\\x", "replace", "r"), Step("service", "kube-proxy", "restart", "r")), False),
        ((Step("service", "agent", "add", "r"), Step("service-environment", "agent: HTTP_PROXY", "add", "r")), False),
        ((Step("service", "agent", "add", "r"), Step("service-environment", "kubelet: HTTP_PROXY", "add", "r")), True),
        ((Step("ledger", "ledger", "replace", "r"),), False),
    ],
)
def test_what_a_rollout_of_settings_is_asked_for(steps: tuple[Step, ...], expected: bool) -> None:
    assert has_settings_change(Plan(steps)) is expected
