"""What commands ask of a host, and how far the operator is with it: tables."""

from typing import Any

import pytest

from transom.diagnosis.host_requests import HostAction, get_progress, plan_request

REQUEST = "2026-11-28T12:00:00Z"
READY = ("True", "Ready", "")


def instance(
    ready: tuple[str, str, str] = READY, *, generation: int = 1, seen: int = 1, paused: bool = False, **more: Any
) -> dict[str, Any]:
    """With `ready`, and the same said of Configured; `seen` is the generation that the operator has looked at."""
    conditions = {"Ready": ready, "Configured": ready, **more.pop("conditions", {})}
    listed = [
        {"type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": seen}
        for type_, (status, reason, message) in conditions.items()
    ]
    meta = {"name": "win-1", "namespace": "ns", "generation": generation}
    spec = {"address": "a", **({"paused": True} if paused else {}), **more.pop("spec", {})}
    return {"metadata": meta, "spec": spec, "status": {"conditions": listed, **more}}


FALSE = ("False", "Unreachable", "no answer")
PUT_OFF = {"ProxyApplied": ("False", "PendingRestart", "kubelet")}
BOOT = {"ProxyApplied": ("False", "PendingBoot", "kubelet")}
MANAGED = ("False", "ManagedByOther", "files")
OF_PEER = ("False", "ManagedByOther", "Node a (annotation windowsmachineconfig.openshift.io/version)")


@pytest.mark.parametrize(
    ("verb", "value", "result"),
    [
        (HostAction.PAUSE, instance(), "changed"),
        (HostAction.PAUSE, instance(paused=True), "unchanged"),
        (HostAction.RESUME, instance(), "unchanged"),
        (HostAction.RESUME, instance(paused=True), "changed"),
        (HostAction.RESTART, instance(), "unchanged"),
        (HostAction.RESTART, instance(seen=0), "changed"),
        (HostAction.RESTART, instance(("False", "PendingRestart", "x"), conditions=PUT_OFF), "changed"),
        (HostAction.RESTART, instance(("False", "PendingBoot", "x"), conditions=BOOT), "failed"),
        (HostAction.RESTART, instance(FALSE), "changed"),
        (HostAction.RESTART, instance(paused=True), "failed"),
        (HostAction.RECONCILE, instance(), "changed"),
        (HostAction.RECONCILE, instance(paused=True), "failed"),
        (HostAction.RECONCILE, {"metadata": {"name": "new"}, "spec": {}}, "changed"),
        (HostAction.ADOPT, instance(), "unchanged"),
        (HostAction.ADOPT, instance(MANAGED), "changed"),
        (HostAction.ADOPT, instance(OF_PEER), "failed"),
        (HostAction.FORGET_HOST_KEY, instance(), "unchanged"),
        (HostAction.FORGET_HOST_KEY, instance(hostKeyFingerprint="SHA256:a"), "changed"),
        (HostAction.FORGET_HOST_KEY, instance(hostKeyFingerprint="SHA256:a", spec={"hostKey": "ssh-ed25519 A"}), "failed"),
        (HostAction.FORGET_NODE, instance(), "unchanged"),
        (HostAction.FORGET_NODE, instance(nodeName="win-1"), "changed"),
    ],
)
def test_plans(verb: HostAction, value: dict[str, Any], result: str) -> None:
    plan = plan_request(verb, value, REQUEST)
    assert plan.result == result
    changes = plan.paused is not None or bool(plan.annotations) or bool(plan.cleared)
    assert changes == (result == "changed")
    assert plan.message


HANDLED: dict[str, Any] = {"lastHandledReconcile": REQUEST, "lastHandledRestart": REQUEST}
PAUSED = ("Unknown", "Paused", "spec.paused is set")


@pytest.mark.parametrize(
    ("verb", "value", "outcome"),
    [
        (HostAction.PAUSE, None, "failed"),
        (HostAction.PAUSE, instance(paused=True), "waiting"),
        (HostAction.PAUSE, instance(PAUSED, paused=True), "done"),
        (HostAction.PAUSE, instance(PAUSED, paused=True, generation=2), "waiting"),
        (HostAction.PAUSE, instance(), "failed"),
        (HostAction.RESUME, instance(PAUSED), "waiting"),
        (HostAction.RESUME, instance(generation=2), "waiting"),
        (HostAction.RESUME, instance(("Unknown", "NotChecked", "")), "waiting"),
        (HostAction.RESUME, instance(("False", "Pending", "")), "waiting"),
        (HostAction.RESUME, instance(), "done"),
        (HostAction.RESUME, instance(("False", "PendingRestart", "kubelet")), "done"),
        (HostAction.RESUME, instance(FALSE), "failed"),
        (HostAction.RESUME, instance(("False", "RolloutHalted", "")), "failed"),
        (HostAction.RESUME, instance(paused=True), "failed"),
        (HostAction.RESTART, instance(), "waiting"),
        (HostAction.RESTART, instance(lastHandledRestart="an earlier one"), "waiting"),
        (HostAction.RESTART, instance(**HANDLED), "done"),
        (HostAction.RESTART, instance(("False", "PendingRestart", ""), **HANDLED), "waiting"),
        (HostAction.RESTART, instance(("False", "TLSFailed", ""), **HANDLED), "failed"),
        (HostAction.RECONCILE, instance(**HANDLED), "done"),
        (HostAction.RECONCILE, instance(FALSE, **HANDLED), "failed"),
        (HostAction.RECONCILE, instance(("False", "Draining", "pods"), **HANDLED), "waiting"),
        (HostAction.RECONCILE, instance(("False", "PendingBoot", ""), **HANDLED), "done"),
        (HostAction.RECONCILE, None, "failed"),
        (HostAction.ADOPT, instance(MANAGED, **HANDLED), "failed"),
        (HostAction.ADOPT, instance(FALSE, **HANDLED), "done"),
        (HostAction.FORGET_HOST_KEY, instance(hostKeyFingerprint="SHA256:b"), "waiting"),
        (HostAction.FORGET_HOST_KEY, instance(hostKeyFingerprint="SHA256:b", **HANDLED), "done"),
        (HostAction.FORGET_HOST_KEY, instance(FALSE, **HANDLED), "failed"),
        (HostAction.FORGET_NODE, instance(("False", "NodeNameChanged", ""), nodeName="a", **HANDLED), "failed"),
        (HostAction.FORGET_NODE, instance(nodeName="b", **HANDLED), "done"),
    ],
)
def test_progress(verb: HostAction, value: dict[str, Any] | None, outcome: str) -> None:
    assert get_progress(verb, value, REQUEST).outcome == outcome
