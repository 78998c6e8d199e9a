"""Two who would work on one host: the ledger says whose it is, and the other one is refused until a person says otherwise."""

import msgspec
import pytest

from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState, Service, ServiceState
from transom.windows.host.queries import ENVIRONMENT, LEDGER, SERVICES, STORES
from transom.windows.ledger import FILES, Manager, OtherManager, format_operator_name
from transom.windows.planning.planner import build_desired_settings, plan, predict_state
from transom.windows.registry.edits import CreateKey, DeleteValue, SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_dword

SALT = b"0123456789abcdef"
HERE, ELSEWHERE = (
    Manager(format_operator_name("transom-system", "0a1b2c3d")),
    Manager(format_operator_name("other", "0a1b2c3d")),
)
PROXY, OTHER = Egress(Secret("http://p:1"), Secret("http://p:1")), Egress(Secret("http://q:1"), Secret("http://q:1"))
THERE = [CreateKey(path) for path in (ENVIRONMENT, STORES, rf"{SERVICES}\kubelet")]
BARE = ObservedState(Registry().apply_edits(THERE), (Service("kubelet", ServiceState.RUNNING),))


def changed(host: ObservedState, egress: Egress, manager: Manager) -> ObservedState:
    return predict_state(host, plan(build_desired_settings(egress), host, SALT, manager=manager))


def noted(host: ObservedState) -> str:
    return ledger.read(host.registry).manager


@pytest.mark.parametrize("first", [HERE, Manager(FILES)])
@pytest.mark.parametrize("second", [ELSEWHERE, Manager(FILES), HERE])
def test_the_second_one_is_refused(first: Manager, second: Manager) -> None:
    host = changed(BARE, PROXY, first)
    assert noted(host) == first.name
    if first == second:
        assert not plan(build_desired_settings(PROXY), host, SALT, manager=second)
        return
    # neither with other settings, nor with the same, nor with none
    for egress in (OTHER, PROXY, Egress()):
        with pytest.raises(OtherManager, match=first.name):
            plan(build_desired_settings(egress), host, SALT, manager=second)


def test_who_is_told_to_takes_the_host_over_and_it_is_noted_at_once() -> None:
    host = changed(BARE, PROXY, HERE)
    took = changed(host, PROXY, msgspec.structs.replace(ELSEWHERE, adopts=True))
    assert noted(took) == ELSEWHERE.name
    with pytest.raises(OtherManager, match=ELSEWHERE.name):
        plan(build_desired_settings(PROXY), took, SALT, manager=HERE)
    assert not plan(build_desired_settings(PROXY), took, SALT, manager=ELSEWHERE)


def test_a_host_that_names_nobody_is_taken_with_its_next_change() -> None:
    """An earlier version, or the first boot of a machine, notes none: for that alone nothing is written."""
    host = changed(BARE, PROXY, HERE)
    earlier = host.registry.apply_edits([DeleteValue(LEDGER, "Manager"), SetValue(LEDGER, "Version", build_dword(1))])
    host = msgspec.structs.replace(host, registry=earlier)
    assert not plan(build_desired_settings(PROXY), host, SALT, manager=HERE)
    assert noted(changed(host, OTHER, HERE)) == HERE.name


def test_nothing_of_a_manager_stays() -> None:
    assert changed(changed(BARE, PROXY, HERE), Egress(), HERE).registry.find_key(LEDGER) is None


def test_what_a_host_says_is_shown_without_control_characters() -> None:
    with pytest.raises(OtherManager) as refused:
        HERE.require_same_manager("x\x1b[2J" + "y" * 5000)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 1000
