"""Empty variables that hide a deleted machine variable until the next boot: the restart that they cause is explained."""

from collections.abc import Sequence

import pytest

from transom.proxy.objects import WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState, Service, ServiceState
from transom.windows.host.queries import ENVIRONMENT, SERVICES
from transom.windows.parts.environment_items import MASKED
from transom.windows.planning.planner import build_desired_settings, plan, predict_state
from transom.windows.registry.edits import CreateKey
from transom.windows.registry.registry import Registry

SALT = bytes(16)
HOST = ObservedState(
    Registry().apply_edits([CreateKey(ENVIRONMENT), CreateKey(rf"{SERVICES}\containerd")]),
    (Service("containerd", ServiceState.RUNNING),),
    boot=1,
)


def settings(scope: str, *variables: str) -> Egress:
    url = Secret("http://proxy.x:3128")
    windows = WindowsSettings(environment_scope=scope, services=("containerd",))  # type: ignore[arg-type]
    return Egress(url if "HTTP_PROXY" in variables else None, url if "HTTPS_PROXY" in variables else None, "", windows=windows)


def reach(egress: Egress, host: ObservedState, boot: int) -> ObservedState:
    return predict_state(host, plan(build_desired_settings(egress), _in_boot(host, boot), SALT))


def _in_boot(host: ObservedState, boot: int) -> ObservedState:
    return ObservedState(host.registry, host.services, boot=boot)


@pytest.mark.parametrize(
    ("scope", "before", "now", "hidden"),
    [
        ("Machine", ("HTTP_PROXY",), (), ("HTTP_PROXY",)),
        ("Machine", ("HTTP_PROXY", "HTTPS_PROXY"), (), ("HTTP_PROXY", "HTTPS_PROXY")),
        ("Machine", ("HTTP_PROXY", "HTTPS_PROXY"), ("HTTPS_PROXY",), ("HTTP_PROXY",)),
        ("Both", ("HTTP_PROXY", "HTTPS_PROXY"), (), ("HTTP_PROXY", "HTTPS_PROXY")),
        ("Both", ("HTTP_PROXY", "HTTPS_PROXY"), ("HTTP_PROXY",), ("HTTPS_PROXY",)),
    ],
)
def test_the_reason_names_what_is_hidden(scope: str, before: Sequence[str], now: Sequence[str], hidden: Sequence[str]) -> None:
    found = _in_boot(reach(settings(scope, *before), HOST, 1), 2)
    # the next pass after a boot knows that the host has booted with them
    found = _in_boot(reach(settings(scope, *before), found, 2), 2)
    planned = plan(build_desired_settings(settings(scope, *now)), found, SALT)
    masks = [step.target for step in planned.steps if step.reason == MASKED]
    assert masks == [f"containerd: {name}" for name in hidden]
    (restart,) = [step for step in planned.steps if step.action == "restart"]
    assert all(name in restart.reason for name in hidden) and "boot" in restart.reason
    changed = predict_state(found, planned)
    assert ledger.read(changed.registry).environment.is_hiding_variables
    rest = plan(build_desired_settings(settings(scope, *now)), _in_boot(changed, 3), SALT)
    assert (rest.stop, rest.start) == ((), ())
    assert not ledger.read(predict_state(_in_boot(changed, 3), rest).registry).environment.is_hiding_variables


def test_another_change_of_the_environment_is_not_explained_by_a_boot() -> None:
    planned = plan(build_desired_settings(settings("Services", "HTTP_PROXY")), HOST, SALT)
    (restart,) = [step for step in planned.steps if step.action == "restart"]
    assert "boot" not in restart.reason
