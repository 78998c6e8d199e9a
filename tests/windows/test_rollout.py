"""One change on its way to many hosts: who may be changed when, as tables and as properties."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.windows.rollout import FAILURES, Rollout, Stage, Verdict

NAMES = [f"host-{number}" for number in range(30)]


def after(hosts: int, *verdicts: Verdict) -> Rollout:
    rollout = Rollout(hosts)
    for name, verdict in zip(NAMES, verdicts, strict=False):
        rollout = rollout.begin(name).come_out(name, verdict)
    return rollout


@pytest.mark.parametrize(
    ("rollout", "stage", "slots"),
    [
        (Rollout(1), "canary", 1),
        (Rollout(30), "canary", 1),
        (Rollout(30).begin("host-0"), "canary", 0),
        (after(30, "left"), "canary", 1),
        (after(30, "failed"), "canary", 1),
        (after(30, "passed"), "tenth", 2),
        (after(30, "passed").begin("host-1"), "tenth", 1),
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
        (Rollout(30, all_at_once=True), "all", math.inf),
        (Rollout(30, all_at_once=True).begin("host-0").come_out("host-0", "refuted"), "all", math.inf),
        (Rollout(1000, passed=frozenset({"host-0"})), "tenth", 99),
    ],
)
def test_who_may_follow(rollout: Rollout, stage: Stage, slots: float) -> None:
    assert (rollout.stage, rollout.slots) == (stage, slots)


def test_a_host_that_was_changed_may_be_put_right_when_the_others_wait() -> None:
    halted = after(30, "passed", "failed", "failed")
    assert [halted.admits(name) for name in NAMES[:4]] == [True, True, True, False]
    assert halted.begin("host-1").come_out("host-1", "passed").stage == "halted"
    with pytest.raises(ValueError, match="host-3"):
        halted.begin("host-3")


def test_hosts_that_go_do_not_count() -> None:
    rollout = after(30, "passed", "failed").among(frozenset({"host-2", "host-3"}))
    assert (rollout.stage, rollout.failed, rollout.hosts) == ("canary", (), 2)


EVENTS = st.sampled_from(["begin", "passed", "failed", "refuted", "left"])


@given(st.integers(1, 30), st.lists(st.tuples(st.sampled_from(NAMES), EVENTS)))
def test_a_wrong_change_reaches_two_hosts_before_one_has_passed_and_never_more_than_a_tenth_before_a_tenth_has(
    hosts: int, events: list[tuple[str, str]]
) -> None:
    rollout = Rollout(hosts)
    for name, event in events:
        if event == "begin" and rollout.admits(name):
            rollout = rollout.begin(name)
        elif name in rollout.working:
            verdict: Verdict = "left" if event == "begin" else event  # type: ignore[assignment]
            rollout = rollout.come_out(name, verdict)
        touched = rollout.working | rollout.passed | frozenset(rollout.failed)
        if not rollout.passed:
            assert len(rollout.working - frozenset(rollout.failed)) <= 1
            assert len(touched) <= FAILURES or rollout.stage != "canary"
        if len(rollout.passed) < rollout.tenth:
            assert len(touched) <= rollout.tenth + len(rollout.failed) + 1
        assert rollout.stage != "all" or len(rollout.failed) < FAILURES


@given(st.integers(1, 30))
def test_a_change_that_works_reaches_every_host(hosts: int) -> None:
    rollout, waves = Rollout(hosts), 0
    while len(rollout.passed) < hosts:
        wave = [name for name in NAMES[:hosts] if name not in rollout.passed][: int(min(rollout.slots, hosts))]
        for name in wave:
            rollout = rollout.begin(name)
        for name in wave:
            rollout = rollout.come_out(name, "passed")
        waves += 1
    assert waves <= 3
