"""One change on its way to many hosts: who may be changed when, as tables and as properties."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.rollout.state import MAX_FAILURES, HostResult, Rollout, Stage

NAMES = [f"host-{number}" for number in range(30)]


def among(count: int) -> frozenset[str]:
    return frozenset(f"host-{number}" for number in range(count))


def after(hosts: int, *results: HostResult) -> Rollout:
    rollout = Rollout(among(hosts))
    for name, result in zip(NAMES, results, strict=False):
        rollout = (rollout if result == "conforming" else rollout.start(name)).record_result(name, result)
    return rollout


@pytest.mark.parametrize(
    ("rollout", "stage", "slots"),
    [
        (Rollout(among(1)), "canary", 1),
        (Rollout(among(30)), "canary", 1),
        (Rollout(among(30)).start("host-0"), "canary", 0),
        (after(30, "untouched"), "canary", 1),
        (after(30, "conforming", "conforming"), "canary", 1),
        (after(30, "failed"), "canary", 1),
        (after(30, "passed"), "tenth", 2),
        (after(30, "passed").start("host-1"), "tenth", 1),
        (after(30, "failed", "passed"), "tenth", 2),
        (after(30, "passed", "passed", "passed"), "all", math.inf),
        (after(10, "passed"), "all", math.inf),
        (after(30, "failed", "failed"), "halted", 0),
        (after(30, "passed", "passed", "passed", "failed", "failed"), "halted", 0),
        (after(30, "passed", "passed", "passed", "failed"), "all", math.inf),
        (after(30, "refuted"), "halted", 0),
        (after(30, "failed", "refuted"), "halted", 0),
        (after(30, "passed", "refuted"), "tenth", 2),
        (after(30, "passed", "refuted", "failed"), "halted", 0),
        (Rollout(among(30), all_at_once=True), "all", math.inf),
        (Rollout(among(30), all_at_once=True).start("host-0").record_result("host-0", "refuted"), "all", math.inf),
        (Rollout(among(1000), passed=frozenset({"host-0"})), "tenth", 99),
    ],
)
def test_who_may_follow(rollout: Rollout, stage: Stage, slots: float) -> None:
    assert (rollout.stage, rollout.free_slots) == (stage, slots)


def test_a_host_that_was_changed_may_be_put_right_when_the_others_wait() -> None:
    halted = after(30, "passed", "failed", "failed")
    assert [halted.can_admit(name) for name in NAMES[:4]] == [True, True, True, False]
    with pytest.raises(ValueError, match="host-3"):
        halted.start("host-3")


def test_a_host_that_passes_is_no_failure_any_more_and_a_halt_stays_a_halt() -> None:
    healed = after(30, "passed", "failed").record_result("host-1", "passed")
    assert (healed.failed, healed.passed) == ((), {"host-0", "host-1"})
    assert healed.start("host-2").record_result("host-2", "failed").stage == "tenth"
    halted = after(30, "passed", "failed", "failed").record_result("host-1", "passed").record_result("host-2", "passed")
    assert (halted.failed, halted.stage, halted.halted_by) == ((), "halted", ("host-1", "host-2"))
    refuted = after(30, "refuted").record_result("host-0", "passed")
    assert (refuted.stage, refuted.refuted) == ("halted", True)


def test_a_rollout_that_is_over_is_stopped_by_nothing() -> None:
    over = after(5, "passed", "conforming", "passed", "passed", "conforming")
    assert over.completed
    for name in NAMES[:5]:
        over = over.start(name).record_result(name, "failed")
    assert (over.stage, over.failed) == ("all", ())
    assert over.with_hosts(frozenset({"host-7"})).start("host-7").record_result("host-7", "refuted").stage == "all"
    # the last of those that halted it passes, too
    assert after(2, "failed", "failed").record_result("host-0", "passed").record_result("host-1", "passed").stage == "all"
    assert not Rollout(frozenset()).record_result("host-0", "untouched").completed


def test_hosts_that_go_do_not_count() -> None:
    rollout = after(30, "passed", "failed").with_hosts(frozenset({"host-2", "host-3"}))
    assert (rollout.stage, rollout.failed, rollout.hosts) == ("canary", (), {"host-2", "host-3"})
    assert after(5, "passed", "passed").with_hosts(frozenset({"host-0", "host-1"})).completed
    assert after(5, "failed", "failed").with_hosts(frozenset({"host-2", "host-3"})).stage == "canary"


EVENTS = st.sampled_from(["begin", "passed", "failed", "refuted", "untouched", "conforming"])


@given(st.integers(1, 30), st.lists(st.tuples(st.sampled_from(NAMES), EVENTS)))
def test_a_wrong_change_reaches_two_hosts_before_one_has_passed_and_never_more_than_a_tenth_before_a_tenth_has(
    hosts: int, events: list[tuple[str, str]]
) -> None:
    rollout = Rollout(among(hosts))
    for name, event in events:
        if name not in rollout.hosts:
            continue
        if event == "begin" and rollout.can_admit(name):
            rollout = rollout.start(name)
        elif name in rollout.in_progress:
            verdict: HostResult = "untouched" if event == "begin" else event  # type: ignore[assignment]
            rollout = rollout.record_result(name, verdict)
        touched = rollout.in_progress | rollout.passed | frozenset(rollout.failed)
        if rollout.completed:
            assert rollout.hosts == rollout.passed | rollout.conforming | rollout.in_progress
            return
        if not rollout.passed:
            assert len(rollout.in_progress - frozenset(rollout.failed) - rollout.conforming) <= 1
            assert len(touched) <= MAX_FAILURES or rollout.stage != "canary"
        if len(rollout.passed) < rollout.first_hosts_count:
            assert len(touched) <= rollout.first_hosts_count + len(rollout.failed) + 1
        assert rollout.stage != "all" or len(rollout.failed) < MAX_FAILURES


@given(st.integers(1, 30))
def test_a_change_that_works_reaches_every_host(hosts: int) -> None:
    rollout, waves = Rollout(among(hosts)), 0
    while len(rollout.passed) < hosts:
        wave = [name for name in NAMES[:hosts] if name not in rollout.passed][: int(min(rollout.free_slots, hosts))]
        for name in wave:
            rollout = rollout.start(name)
        for name in wave:
            rollout = rollout.record_result(name, "passed")
        waves += 1
    assert waves <= 3
