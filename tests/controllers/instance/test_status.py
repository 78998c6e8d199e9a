"""What a pass says, as conditions: tables."""

from datetime import UTC, datetime

import msgspec
import pytest
from cryptography import x509
from tests.support.operator.bundles import ROOT_1, SHA1_1

from transom.controllers.instance_state import status
from transom.controllers.runtime.conditions import Condition
from transom.hosts.errors import (
    HostError,
    ImportFailed,
    KeyUnusable,
    ProfileNotWritten,
    RestartsFailed,
    Unreachable,
    Unreadable,
)
from transom.hosts.passes.base_pass import PassResult
from transom.proxy.objects import Restart, WindowsSettings
from transom.proxy.secret import Secret
from transom.proxy.settings import Egress
from transom.proxy.trust import parse_bundle
from transom.windows import ledger
from transom.windows.host.host_state import ObservedState, Step
from transom.windows.host.queries import LEDGER
from transom.windows.nodes.fetch import FetchAttempt
from transom.windows.nodes.windows_instance import WindowsInstanceStatus
from transom.windows.parts.certificates import DISALLOWED, get_store_path
from transom.windows.parts.downtime import DeferredRestart, Downtime
from transom.windows.parts.execution_policy import MACHINE
from transom.windows.parts.trust import TrustedCertificate
from transom.windows.planning.planner import Plan
from transom.windows.registry.edits import CreateKey, SetValue
from transom.windows.registry.registry import Registry
from transom.windows.registry.values import build_dword, build_sz

PROXY = Egress(Secret("http://p:1"), Secret("http://p:1"), "x.example")
BOTH = Egress(Secret("http://p:1"), Secret("http://p:1"), "x.example", parse_bundle(ROOT_1).certificates)
SERVICE = Step("service-environment", "containerd: HTTP_PROXY", "add", "set")
CERTIFICATE = Step("certificate", "ROOT: …", "add", "set")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("egress", "steps", "error", "proxy", "trust"),
    [
        (Egress(), (), None, "True/NotConfigured", "True/NotConfigured"),
        (PROXY, (), None, "True/Applied", "True/NotConfigured"),
        (BOTH, (SERVICE, CERTIFICATE), None, "True/Applied", "True/Applied"),
        (BOTH, (SERVICE,), ImportFailed("no"), "False/ImportFailed", "True/Applied"),
        (BOTH, (CERTIFICATE,), ImportFailed("no"), "True/Applied", "False/ImportFailed"),
        (BOTH, (SERVICE, CERTIFICATE), ProfileNotWritten("no"), "False/ProfileNotWritten", "True/Applied"),
        (
            BOTH,
            (Step("service", "kubelet", "restart", "x"),),
            RestartsFailed("no"),
            "False/RestartsFailed",
            "False/RestartsFailed",
        ),
    ],
)
def test_proxy_and_trust(egress: Egress, steps: tuple[Step, ...], error: HostError | None, proxy: str, trust: str) -> None:
    conditions = status.build_pass_conditions(egress, PassResult(ObservedState(Registry()), Plan(steps), error=error))
    assert shown(conditions["ProxyApplied"]) == proxy
    assert shown(conditions["TrustApplied"]) == trust
    assert shown(conditions["Reachable"]) == "True/Connected"
    assert conditions["Configured"].status == ("True" if error is None else "False")


@pytest.mark.parametrize(
    "egress", [PROXY, msgspec.structs.replace(PROXY, windows=WindowsSettings(environment_scope="Machine"))]
)
def test_a_ledger_of_a_newer_transom(egress: Egress) -> None:
    state = ObservedState(Registry().apply_edits([SetValue(LEDGER, "Version", build_dword(99))]))
    conditions = status.build_pass_conditions(egress, PassResult(state, error=Unreadable("the ledger cannot be understood")))
    assert {name: shown(conditions[name]) for name in ("Configured", "ProxyApplied", "RebootRequired")} == {
        "Configured": "False/Unreadable",
        "ProxyApplied": "False/Unreadable",
        "RebootRequired": "False/NotRequired",
    }


CHECKED = ("http://registry.corp.example/",)


@pytest.mark.parametrize(
    ("endpoints", "found", "unproven"),
    [
        ((), PassResult(begun=True), "spec.readinessEndpoints is not set"),
        ((), PassResult(), "spec.readinessEndpoints is not set"),
        (("http://x.example/",), PassResult(begun=True), "no endpoint is behind the proxy for it"),
        (("http://x.example/",), PassResult(), "no endpoint is behind the proxy for it"),
        (CHECKED, PassResult(begun=True, fetched=None), "it has no curl.exe"),
        (CHECKED, PassResult(fetched=None), "it has no curl.exe"),
        (CHECKED, PassResult(begun=True, fetched=(FetchAttempt(0, 0, 200),)), None),
        (CHECKED, PassResult(), None),
    ],
)
@pytest.mark.parametrize(("restart", "reason"), [("OnNextBoot", "PendingBoot"), ("Manual", "PendingRestart")])
def test_settings_that_wait_for_a_restart_say_where_they_are_unproven(
    endpoints: tuple[str, ...], found: PassResult, unproven: str | None, restart: Restart, reason: str
) -> None:
    windows = WindowsSettings(restart=restart)
    egress = msgspec.structs.replace(PROXY, windows=windows, readiness_endpoints=endpoints)
    held = ledger.Ledger(salt=b"s", downtime=Downtime(deferred={"kubelet": DeferredRestart(1)}))
    state = ObservedState(Registry().apply_edits(ledger.build_edits(Registry(), held)))
    condition = status.build_pass_conditions(egress, msgspec.structs.replace(found, before=state, plan=Plan()))["ProxyApplied"]
    assert shown(condition) == f"False/{reason}"
    said = f"; unproven: nothing was fetched from the host: {unproven}"
    assert condition.message.endswith(said) if unproven else "unproven" not in condition.message


def test_a_distrusted_certificate() -> None:
    state = ObservedState(Registry().apply_edits([CreateKey(rf"{get_store_path(DISALLOWED)}\{SHA1_1}")]))
    condition = status.build_pass_conditions(BOTH, PassResult(state, Plan()))["TrustApplied"]
    assert shown(condition) == "False/Distrusted"
    assert x509.load_pem_x509_certificate(ROOT_1.encode()).subject.rfc4514_string() in condition.message


def test_a_profile_that_the_execution_policy_does_not_load() -> None:
    state = ObservedState(Registry().apply_edits([SetValue(MACHINE, "ExecutionPolicy", build_sz("AllSigned"))]))
    asked = msgspec.structs.replace(PROXY, windows=WindowsSettings(power_shell=True))
    condition = status.build_pass_conditions(asked, PassResult(state, Plan()))["ProxyApplied"]
    assert shown(condition) == "False/ProfileNotLoaded"
    assert "AllSigned" in condition.message
    assert shown(status.build_pass_conditions(PROXY, PassResult(state, Plan()))["ProxyApplied"]) == "True/Applied"


def test_a_certificate_of_group_policy_is_named() -> None:
    line = TrustedCertificate(added=False, subject="CN=Corp Root 1", policy=True)
    held = ledger.Ledger(salt=b"s", trust={"ROOT": {SHA1_1: line}})
    state = ObservedState(Registry().apply_edits(ledger.build_edits(Registry(), held)))
    condition = status.build_pass_conditions(BOTH, PassResult(state, Plan()))["TrustApplied"]
    assert shown(condition) == "True/Applied"
    assert condition.message == "1 certificates are in the host's stores; group policy holds, and was left, CN=Corp Root 1"


@pytest.mark.parametrize(
    ("found", "before", "of"),
    [
        (PassResult(plan=Plan((SERVICE,)), waiting=True), None, {"ProxyApplied"}),
        (PassResult(plan=Plan((CERTIFICATE,)), waiting=True), None, {"TrustApplied"}),
        (PassResult(waiting=True), PROXY, {"TrustApplied"}),
        (PassResult(waiting=True), Egress(), {"ProxyApplied", "TrustApplied"}),
        (PassResult(waiting=True), None, set()),
    ],
)
def test_what_a_stopped_rollout_leaves_out_is_not_applied(found: PassResult, before: Egress | None, of: set[str]) -> None:
    conditions = status.build_halted_conditions("two hosts failed", found, before, BOTH)
    assert {name: shown(condition) for name, condition in conditions.items()} == dict.fromkeys(
        {"Configured", *of}, "False/RolloutHalted"
    )


def test_what_a_plan_leaves_is_in_the_event() -> None:
    plan = Plan((SERVICE,), warnings=("agent depends on a service that is removed: it is stopped, and cannot start",))
    assert status.format_summary(plan, ("containerd",)) == (
        "added HTTP_PROXY of containerd; restarted containerd; agent depends on a service that is removed: it is stopped, and "
        "cannot start"
    )


@pytest.mark.parametrize(
    ("error", "reachable", "configured"),
    [
        (Unreachable("no"), "False/Unreachable", "False/Unreachable"),
        (KeyUnusable("no"), "Unknown/KeyInvalid", "False/KeyInvalid"),
    ],
)
def test_a_host_that_was_not_read(error: HostError, reachable: str, configured: str) -> None:
    conditions = status.build_pass_conditions(PROXY, PassResult(error=error))
    assert shown(conditions["Reachable"]) == reachable
    assert shown(conditions["Configured"]) == configured
    assert conditions["ProxyApplied"].status == "Unknown"


def test_scope_machine_is_pending_only_where_it_stands_alone() -> None:
    for scope in ("Services", "Both"):
        egress = Egress(Secret("http://p:1"), windows=WindowsSettings(environment_scope=scope))  # type: ignore[arg-type]
        assert (
            shown(status.build_pass_conditions(egress, PassResult(ObservedState(Registry()), Plan()))["ProxyApplied"])
            == "True/Applied"
        )


def test_times_change_with_the_status_alone() -> None:
    right = Condition("True", "UpToDate", "m")
    first = status.merge_status(WindowsInstanceStatus(), {"Configured": right}, {"os_version": "10.0"}, 1, NOW)
    assert [condition.type for condition in first.conditions] == list(status.TYPES)
    later = NOW.replace(hour=13)
    same = status.merge_status(first, {"Configured": right}, {}, 1, later)
    assert same == first
    other = status.merge_status(first, {"Configured": Condition("False", "Held", "m")}, {}, 2, later)
    configured = other.get_condition("Configured")
    assert configured.last_transition_time == "2026-11-21T13:00:00Z"
    assert (configured.observed_generation, other.os_version) == (2, "10.0")


def shown(condition: Condition) -> str:
    return f"{condition.status}/{condition.reason}"


CHANGED = PassResult(plan=Plan((SERVICE, CERTIFICATE), stop=("kubelet",)), restarted=("containerd", "kubelet"), begun=True)


@pytest.mark.parametrize(
    ("result", "parts"),
    [
        (CHANGED, ("added HTTP_PROXY of containerd", "restarted containerd, kubelet")),
        (
            msgspec.structs.replace(CHANGED, error=RestartsFailed({"kubelet": "1053"})),
            ("RestartsFailed", "restarted containerd"),
        ),
        (msgspec.structs.replace(CHANGED, begun=False, error=Unreachable("no")), ()),
        (PassResult(), ()),
        (PassResult(error=Unreachable("no")), ()),
    ],
)
def test_what_a_pass_changed_is_described_by_names(result: PassResult, parts: tuple[str, ...]) -> None:
    described = status.describe_change(result)
    assert bool(described) == bool(parts)
    for part in parts:
        assert part in described
    assert "http://p:1" not in described


def test_the_last_change_stays_until_the_next_one() -> None:
    later = NOW.replace(hour=13)
    changed = status.merge_status(WindowsInstanceStatus(), {}, {"last_change": "restarted kubelet"}, 1, NOW)
    assert changed.last_change is not None
    assert (changed.last_change.time, changed.last_change.summary) == ("2026-11-21T12:00:00Z", "restarted kubelet")
    unchanged = status.merge_status(changed, {}, {"last_change": None, "last_checked": "x"}, 1, later)
    assert unchanged.last_change == changed.last_change
    again = status.merge_status(unchanged, {}, {"last_change": "x" * 5000}, 1, later)
    assert again.last_change is not None
    assert again.last_change.time == "2026-11-21T13:00:00Z"
    assert len(again.last_change.summary) == 1024
