"""Whether a rollout is halted, and whether the operator has resumed it."""

from typing import Any

import pytest

from transom.diagnosis.rollout_requests import RolloutState, get_rollout_progress


def base(halted: bool, *, since: str = "1", updated: int = 1, total: int = 3) -> dict[str, Any]:
    condition = {"type": "RolloutHalted", "status": str(halted), "message": "two hosts failed", "lastTransitionTime": since}
    status = {"conditions": [condition], "hosts": {"total": total, "updated": updated}}
    return {"metadata": {"name": "cluster"}, "status": status}


def host(name: str, changes: str = "", ready: str = "False", reason: str = "RolloutHalted") -> dict[str, Any]:
    conditions = [{"type": type_, "status": ready, "reason": reason} for type_ in ("Ready", "Configured")]
    return {"metadata": {"name": name}, "spec": {}, "status": {"conditions": conditions, "changes": changes}}


FIRST, SECOND = "settings/aa:failed!", "settings/bb:failed!"
BEFORE = RolloutState(base(True), (host("win-1", FIRST), host("win-2", FIRST), host("win-3")))


@pytest.mark.parametrize(
    ("now", "outcome"),
    [
        (BEFORE, "waiting"),
        # one of them is tried again, and the condition is not written yet
        (RolloutState(base(True), (host("win-1", "settings/bb:begun"), host("win-2", FIRST), host("win-3"))), "waiting"),
        (RolloutState(base(False), (host("win-1", "settings/bb:begun"), host("win-2", FIRST), host("win-3"))), "waiting"),
        (RolloutState(base(False, updated=3), ()), "done"),
        (RolloutState(base(True), (host("win-1", SECOND), host("win-2", SECOND), host("win-3"))), "failed"),
        (RolloutState(base(True, since="2"), ()), "failed"),
        (RolloutState(base(False, updated=0, total=0), ()), "done"),
    ],
)
def test_progress(now: RolloutState, outcome: str) -> None:
    assert get_rollout_progress(BEFORE, now).outcome == outcome


def test_without_an_egress_proxy_hosts_tell() -> None:
    before = RolloutState(None, (host("win-1"), host("win-2", ready="True", reason="Ready")))
    assert "win-1" in before.halted
    assert get_rollout_progress(before, before).outcome == "waiting"
    pending = RolloutState(None, (host("win-1", reason="Pending"),))
    assert (pending.halted, get_rollout_progress(before, pending).outcome) == ("", "waiting")
    ready = RolloutState(None, (host("win-1", ready="True", reason="Ready"),))
    assert get_rollout_progress(before, ready).outcome == "done"
