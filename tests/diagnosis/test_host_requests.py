"""What commands ask of a host, and how far the operator is with it: tables."""

from typing import Any

import pytest

from transom.diagnosis.host_requests import Verb, get_progress, plan_request

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
        (Verb.PAUSE, instance(), "changed"),
        (Verb.PAUSE, instance(paused=True), "unchanged"),
        (Verb.RESUME, instance(), "unchanged"),
        (Verb.RESUME, instance(paused=True), "changed"),
        (Verb.RESTART, instance(), "unchanged"),
        (Verb.RESTART, instance(seen=0), "changed"),
        (Verb.RESTART, instance(("False", "PendingRestart", "x"), conditions=PUT_OFF), "changed"),
        (Verb.RESTART, instance(("False", "PendingBoot", "x"), conditions=BOOT), "failed"),
        (Verb.RESTART, instance(FALSE), "changed"),
        (Verb.RESTART, instance(paused=True), "failed"),
        (Verb.RECONCILE, instance(), "changed"),
        (Verb.RECONCILE, instance(paused=True), "failed"),
        (Verb.RECONCILE, {"metadata": {"name": "new"}, "spec": {}}, "changed"),
        (Verb.ADOPT, instance(), "unchanged"),
        (Verb.ADOPT, instance(MANAGED), "changed"),
        (Verb.ADOPT, instance(OF_PEER), "failed"),
        (Verb.FORGET_HOST_KEY, instance(), "unchanged"),
        (Verb.FORGET_HOST_KEY, instance(hostKeyFingerprint="SHA256:a"), "changed"),
        (Verb.FORGET_HOST_KEY, instance(hostKeyFingerprint="SHA256:a", spec={"hostKey": "ssh-ed25519 A"}), "failed"),
        (Verb.FORGET_NODE, instance(), "unchanged"),
        (Verb.FORGET_NODE, instance(nodeName="win-1"), "changed"),
    ],
)
def test_plans(verb: Verb, value: dict[str, Any], result: str) -> None:
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
        (Verb.PAUSE, None, "failed"),
        (Verb.PAUSE, instance(paused=True), "waiting"),
        (Verb.PAUSE, instance(PAUSED, paused=True), "done"),
        (Verb.PAUSE, instance(PAUSED, paused=True, generation=2), "waiting"),
        (Verb.PAUSE, instance(), "failed"),
        (Verb.RESUME, instance(PAUSED), "waiting"),
        (Verb.RESUME, instance(generation=2), "waiting"),
        (Verb.RESUME, instance(("Unknown", "NotChecked", "")), "waiting"),
        (Verb.RESUME, instance(("False", "Pending", "")), "waiting"),
        (Verb.RESUME, instance(), "done"),
        (Verb.RESUME, instance(("False", "PendingRestart", "kubelet")), "done"),
        (Verb.RESUME, instance(FALSE), "failed"),
        (Verb.RESUME, instance(("False", "RolloutHalted", "")), "failed"),
        (Verb.RESUME, instance(paused=True), "failed"),
        (Verb.RESTART, instance(), "waiting"),
        (Verb.RESTART, instance(lastHandledRestart="an earlier one"), "waiting"),
        (Verb.RESTART, instance(**HANDLED), "done"),
        (Verb.RESTART, instance(("False", "PendingRestart", ""), **HANDLED), "waiting"),
        (Verb.RESTART, instance(("False", "TLSFailed", ""), **HANDLED), "failed"),
        (Verb.RECONCILE, instance(**HANDLED), "done"),
        (Verb.RECONCILE, instance(FALSE, **HANDLED), "failed"),
        (Verb.RECONCILE, instance(("False", "Draining", "pods"), **HANDLED), "waiting"),
        (Verb.RECONCILE, instance(("False", "PendingBoot", ""), **HANDLED), "done"),
        (Verb.RECONCILE, None, "failed"),
        (Verb.ADOPT, instance(MANAGED, **HANDLED), "failed"),
        (Verb.ADOPT, instance(FALSE, **HANDLED), "done"),
        (Verb.FORGET_HOST_KEY, instance(hostKeyFingerprint="SHA256:b"), "waiting"),
        (Verb.FORGET_HOST_KEY, instance(hostKeyFingerprint="SHA256:b", **HANDLED), "done"),
        (Verb.FORGET_HOST_KEY, instance(FALSE, **HANDLED), "failed"),
        (Verb.FORGET_NODE, instance(("False", "NodeNameChanged", ""), nodeName="a", **HANDLED), "failed"),
        (Verb.FORGET_NODE, instance(nodeName="b", **HANDLED), "done"),
    ],
)
def test_progress(verb: Verb, value: dict[str, Any] | None, outcome: str) -> None:
    assert get_progress(verb, value, REQUEST).outcome == outcome
