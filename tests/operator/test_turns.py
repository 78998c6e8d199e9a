"""Whose turn it is, without hosts: what the operator asks `Rollouts`, and whom that asks for."""

import msgspec
import pytest

from transom.controllers.reports import Reports
from transom.controllers.windows.hosts import Target
from transom.controllers.windows.rollout import changes_settings
from transom.controllers.windows.rollouts import Rollouts
from transom.hosts.errors import RestartsFailed, Unreachable
from transom.hosts.passes import PassResult
from transom.kube.store import Name
from transom.proxy.finding import Place
from transom.proxy.objects import Meta
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.fetch import Fetched
from transom.windows.instance import WindowsInstance
from transom.windows.plan import Plan
from transom.windows.steps import Step

WELL = PassResult(plan=Plan(forget=True), begun=True)


def key(number: int) -> Name:
    return "transom", f"win-{number}"


def target(number: int, proxy: str = "http://one") -> Target:
    instance = WindowsInstance(metadata=Meta(f"win-{number}"), place=Place("t", f"WindowsInstance/win-{number}"))
    return Target(instance, Egress(Secret(proxy)), None)


def made(hosts: int) -> tuple[Rollouts, list[Name], Reports]:
    asked: list[Name] = []
    reports = Reports()
    rollouts = Rollouts(lambda _: hosts, reports)
    rollouts.join(asked.append)
    return rollouts, asked, reports


def begin(rollouts: Rollouts, number: int) -> bool:
    return rollouts.may_connect(key(number), target(number)) and rollouts.admit(key(number), target(number))


def test_hosts_wait_for_the_canary_and_are_asked_for_in_order() -> None:
    rollouts, asked, _ = made(30)
    assert begin(rollouts, 0)
    assert [begin(rollouts, number) for number in range(1, 30)] == [False] * 29
    assert asked == []
    rollouts.came_out(key(0), target(0), WELL)
    assert asked == [key(1), key(2)]


def test_hosts_that_are_known_to_differ_are_not_read_before_their_turn() -> None:
    rollouts, asked, _ = made(30)
    before = target(0, "http://before").egress
    assert [rollouts.may_connect(key(number), target(number), before) for number in range(3)] == [True, False, False]
    rollouts.came_out(key(0), target(0), PassResult())
    assert asked == [key(1)]
    rollouts, _, _ = made(30)
    same = target(0).egress
    tried = msgspec.structs.replace(same, readiness_endpoints=("https://x",))
    assert all(rollouts.may_connect(key(number), target(number), tried) for number in range(3))


def test_nobody_waits_in_a_change_that_a_pass_from_before_an_edit_has_ended() -> None:
    rollouts, asked, _ = made(30)
    assert begin(rollouts, 0)
    assert not begin(rollouts, 1)
    rollouts.came_out(key(2), target(2, "http://before"), PassResult())
    assert asked == [key(1)]


def test_the_turn_of_a_host_that_is_gone_goes_to_the_next_one() -> None:
    rollouts, asked, _ = made(30)
    assert begin(rollouts, 0)
    assert not begin(rollouts, 1)
    assert not begin(rollouts, 2)
    rollouts.came_out(key(0), target(0), PassResult(error=Unreachable("no answer")))
    assert asked == [key(1)]
    rollouts.done(key(1))
    assert asked == [key(1), key(2)]
    rollouts.done(key(9))
    assert len(asked) == 2


def test_a_canary_that_does_not_get_out_stops_it_at_once() -> None:
    rollouts, _, reports = made(30)
    fetched = (Fetched(0, 60),)
    does_not_get_out = msgspec.structs.replace(WELL, fetched=fetched)

    def checked(number: int) -> Target:
        plain = target(number)
        return msgspec.structs.replace(plain, egress=msgspec.structs.replace(plain.egress, readiness_endpoints=("https://x",)))

    assert rollouts.admit(key(0), checked(0))
    rollouts.came_out(key(0), checked(0), does_not_get_out)
    assert not rollouts.may_connect(key(1), checked(1))
    said = reports.of("cluster")["RolloutHalted"]
    assert (said.status, said.reason) == ("True", "EgressFails")
    assert "win-0" in said.message
    assert rollouts.stopped(checked(1)) == (
        "not changed: the rollout stopped at its first host, which does not get out with these settings (win-0)"
    )


async def test_after_a_halt_and_a_restart_hosts_are_read_and_none_is_changed() -> None:
    """Those that an earlier process changed say so; those that it left say why, once."""

    async def digest(_: str) -> str:
        return "name"

    asked: list[Name] = []
    rollouts = Rollouts(lambda _: 30, Reports(), recall=lambda *_: ("win-0", "win-1"))
    rollouts.join(asked.append)
    await rollouts.meet(target(2), digest)
    for number in range(2, 30):
        assert rollouts.may_connect(key(number), target(number))
        if number % 2:
            assert not rollouts.admit(key(number), target(number))
        rollouts.came_out(key(number), target(number), PassResult(waiting=bool(number % 2)))
        assert (rollouts.stopped(target(number)) or "").startswith("not changed: the rollout stopped")
    assert asked == []
    before = target(5, "http://before").egress
    assert not rollouts.may_connect(key(5), target(5), before)
    assert rollouts.may_connect(key(5), target(5), before, due=True)


def test_two_failures_are_told_and_an_edit_begins_anew() -> None:
    rollouts, asked, reports = made(30)
    failed = PassResult(plan=Plan(forget=True), begun=True, error=RestartsFailed("kubelet does not run"))
    for number in (0, 1):
        assert begin(rollouts, number)
        assert not begin(rollouts, 7)
        rollouts.came_out(key(number), target(number), failed)
    said = reports.of("cluster")["RolloutHalted"]
    assert (said.status, said.reason) == ("True", "TwoFailures")
    assert "win-0, win-1" in said.message
    assert asked.count(key(7)) == 2
    assert not begin(rollouts, 7)
    assert rollouts.stopped(target(7)) == "not changed: the rollout stopped after 2 failures (win-0, win-1)"
    rollouts.done(key(7))
    assert asked.count(key(7)) == 2
    assert rollouts.may_connect(key(7), target(7, "http://two"))
    assert reports.of("cluster")["RolloutHalted"].status == "False"
    assert rollouts.stopped(target(7, "http://two")) is None


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
    assert changes_settings(Plan(steps)) is expected
