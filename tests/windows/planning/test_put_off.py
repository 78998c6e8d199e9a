"""Restarts that are put off: until the next boot, or until somebody says so."""

import msgspec
import pytest

from transom.windows import ledger
from transom.windows.host.host_state import DesiredState, ObservedState, Service, ServiceState
from transom.windows.host.queries import LEDGER, SERVICES
from transom.windows.parts.downtime import DeferredRestart
from transom.windows.parts.plan_builder import When
from transom.windows.planning.planner import plan, predict_state
from transom.windows.registry.edits import CreateKey, SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_multi_sz

SALT = b"0123456789abcdef"
KEY = rf"{SERVICES}\kubelet"
HOST = ObservedState(
    Registry().apply_edits([CreateKey(KEY)]), (Service("kubelet", ServiceState.RUNNING),), boot=7, dependencies={}
)
NOTHING = DesiredState(Registry().apply_edits([CreateKey(KEY)]))


def wanted(value: str) -> DesiredState:
    return DesiredState(Registry().apply_edits([SetValue(KEY, "Environment", build_multi_sz([f"HTTP_PROXY={value}"]))]))


ONE, TWO = wanted("http://one"), wanted("http://two")


def booted(state: ObservedState) -> ObservedState:
    return msgspec.structs.replace(state, boot=(state.boot or 0) + 1)


@pytest.mark.parametrize("when", ["boot", "manual"])
def test_the_settings_are_written_and_nothing_is_restarted(when: When) -> None:
    planned = plan(ONE, HOST, SALT, when)
    assert (planned.stop, planned.start, planned.forget) == ((), (), False)
    assert len(planned.warnings) == 1
    state = predict_state(HOST, planned)
    assert ledger.read(state.registry).downtime.deferred == {"kubelet": DeferredRestart(7)}
    assert not plan(ONE, state, SALT, when)
    # a second change in the same boot, and a word for it
    again = predict_state(state, plan(TWO, state, SALT, when))
    assert ledger.read(again.registry).downtime.deferred == {"kubelet": DeferredRestart(7)}
    now = plan(TWO, again, SALT, "now")
    assert now.stop == now.start == ("kubelet",)
    assert not plan(TWO, predict_state(again, now), SALT, "now")
    assert ledger.read(predict_state(again, now).registry).downtime.deferred == {}


@pytest.mark.parametrize("when", ["boot", "manual", "now"])
def test_a_boot_makes_them_needless(when: When) -> None:
    state = booted(predict_state(HOST, plan(ONE, HOST, SALT, "boot")))
    planned = plan(ONE, state, SALT, when)
    assert (planned.stop, planned.warnings) == ((), ())
    state = predict_state(state, planned)
    assert ledger.read(state.registry).downtime.deferred == {}
    assert not plan(ONE, state, SALT, when)


def test_the_ledger_goes_after_the_boot_that_follows_a_removal() -> None:
    state = booted(predict_state(HOST, plan(ONE, HOST, SALT, "boot")))
    state = predict_state(state, plan(ONE, state, SALT, "boot"))
    removed = predict_state(state, plan(NOTHING, state, SALT, "boot"))
    assert ledger.read(removed.registry).downtime.deferred == {"kubelet": DeferredRestart(8)}
    gone = booted(removed)
    gone = predict_state(gone, plan(NOTHING, gone, SALT, "boot"))
    assert gone.registry.find_key(LEDGER) is None
    assert gone.registry.find_value(KEY, "Environment") is None


def test_a_service_that_was_stopped_owes_nothing() -> None:
    stopped = msgspec.structs.replace(HOST, services=(Service("kubelet", ServiceState.STOPPED),))
    state = predict_state(stopped, plan(ONE, stopped, SALT, "manual"))
    assert ledger.read(state.registry).downtime.deferred == {}
