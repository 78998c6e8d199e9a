"""What is wished for on a host, from all that settings say."""

import msgspec

from transom.proxy.objects import LabelSelector, LinuxSettings, PodsSettings, WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.windows.host.host_state import DesiredState
from transom.windows.ledger import SETTINGS
from transom.windows.planning.planner import build_desired_settings
from transom.windows.registry.registry import Registry

PROXY = Secret("http://p.example:3128")
FULL = Egress(
    PROXY,
    PROXY,
    "localhost",
    windows=WindowsSettings(environment_scope="Both", win_http=True),
    readiness_endpoints=("https://r.example",),
    readiness_policy="Report",
    pods=PodsSettings(namespace_selector=LabelSelector({"a": "b"})),
    propagated_selector=LabelSelector({"a": "b"}),
    linux=LinuxSettings(),
    missing=True,
    direct=True,
)


def test_nothing_else_of_the_settings_is_wished_for_than_what_a_wish_is_known_by() -> None:
    wished = Registry().apply_edits(edit for part in SETTINGS.values() for edit in part.iter_desired_edits(FULL))
    assert build_desired_settings(FULL) == DesiredState(wished)
    assert build_desired_settings(msgspec.structs.replace(FULL, no_proxy="other")) != build_desired_settings(FULL)
