"""What status reports of generations, deletions, the lease by two clocks, and rights."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from transom.cli.status_table import iter_status_lines
from transom.diagnosis.checks import diagnose
from transom.diagnosis.overview import build_overview, find_leader, needs_lease_recheck
from transom.diagnosis.snapshot import ClusterSnapshot

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
NS = "transom-system"


def lease(seconds_ago: float | None, holder: str = "one") -> dict[str, Any]:
    renewed = None if seconds_ago is None else (NOW - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return {"kind": "Lease", "metadata": {"name": "transom", "namespace": NS}, "spec": spec}


def proxy(generation: int | None, observed: int | None, **meta: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "m", "observedGeneration": observed}
    hosts = {"total": 5, "updated": 5, "waiting": 0, "failed": 0}
    metadata = {"name": "cluster", "generation": generation, **meta}
    return {"kind": "EgressProxy", "metadata": metadata, "status": {"conditions": [ready], "hosts": hosts}}


def host(name: str, generation: int, observed: int, **meta: Any) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "m", "observedGeneration": observed}
    metadata = {"name": name, "namespace": NS, "generation": generation, **meta}
    return {"kind": "WindowsInstance", "metadata": metadata, "spec": {"address": "10.0.0.1"}, "status": {"conditions": [ready]}}


def seen(*objects: dict[str, Any], **fields: Any) -> ClusterSnapshot:
    kinds: dict[str, tuple[dict[str, Any], ...]] = {"EgressProxy": (), "WindowsInstance": (), "Lease": ()}
    for obj in objects:
        kinds[obj["kind"]] = (*kinds.get(obj["kind"], ()), obj)
    return ClusterSnapshot("https://api.example", NS, NOW, kinds, **fields)


@pytest.mark.parametrize(
    ("generation", "observed", "ready", "reason"),
    [
        (2, 2, "True", "Ready"),
        (3, 2, "Unknown", "NotObserved"),
        (9, 2, "Unknown", "NotObserved"),
        (1, 2, "Unknown", "StatusNewer"),
        # written by an operator that did not count, or read from a directory
        (3, None, "True", "Ready"),
        (None, 3, "True", "Ready"),
    ],
)
def test_a_status_counts_for_the_generation_that_it_speaks_of(
    generation: int | None, observed: int | None, ready: str, reason: str
) -> None:
    found = build_overview(seen(proxy(generation, observed), lease(1)))
    (row,) = found.objects
    assert (row.ready, row.reason) == (ready, reason)
    assert found.rollout is not None
    assert bool(found.rollout.outdated) == (ready != "True")
    text = "\n".join(line.text for line in iter_status_lines(found, NOW))
    assert ("True  Ready" in text) == (ready == "True")


@pytest.mark.parametrize("works", [True, False])
@pytest.mark.parametrize("paused", [True, False])
def test_a_deletion_names_what_it_waits_for_and_what_ends_it(*, works: bool, paused: bool) -> None:
    one = host("win-5", 1, 1, deletionTimestamp="2026-11-23T11:00:00Z", finalizers=["transom.dev/host", "other/one"])
    one["spec"]["paused"] = paused
    found = build_overview(seen(one, lease(1 if works else 9000)))
    (row,) = found.objects
    assert (row.ready, row.reason) == ("False", "Removing")
    assert "transom.dev/host, other/one" in row.message
    assert bool(row.next) == (not works)
    assert row.state == ("waiting" if works else "failed")
    if not works:
        assert (
            """kubectl patch windowsinstance win-5 -n transom-system --type=merge -p '{"metadata":{"finalizers":null}}'"""
            in row.next
        )


def test_the_step_of_many_deletions_names_none_of_them() -> None:
    stuck = {"deletionTimestamp": "2026-11-23T11:00:00Z", "finalizers": ["transom.dev/host"]}
    found = build_overview(seen(*(host(f"win-{number}", 1, 1, **stuck) for number in range(6)), lease(9000)))
    text = "\n".join(line.text for line in iter_status_lines(found, NOW))
    assert "kubectl patch windowsinstance NAME -n transom-system" in text


@pytest.mark.parametrize(
    ("ago", "renewing", "works", "again"),
    [
        (1, None, True, False),
        (14, None, True, False),
        (29, None, True, True),
        (40, None, False, True),
        # the operator's clock is hours behind, or ahead
        (18_000, None, False, True),
        (18_000, True, True, False),
        (-10_800, None, True, True),
        (-10_800, False, False, False),
        (-10_800, True, True, False),
        (None, None, False, True),
        (1, False, False, False),
    ],
)
def test_whether_somebody_works_is_not_judged_by_two_clocks(
    ago: float | None, renewing: bool | None, works: bool, again: bool
) -> None:
    observed = seen(lease(ago), lease_renewing=renewing)
    who = find_leader(observed)
    assert who is not None
    assert (who.working, needs_lease_recheck(observed)) == (works, again)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lease(20, holder=""), "stopped cleanly"),
        (lease(None, holder=""), "never had a holder"),
        (lease(9000), "one was the last"),
    ],
)
def test_who_was_the_last_to_work(value: dict[str, Any], text: str) -> None:
    lines = [line.text for line in iter_status_lines(build_overview(seen(value, proxy(1, 1))), NOW)]
    assert text in lines[0]


def test_rights_and_a_namespace_that_goes_are_at_the_top() -> None:
    review = {
        "kind": "SubjectAccessReview",
        "metadata": {"name": "update configmaps transom-rollouts in transom-system"},
        "spec": {"user": "system:serviceaccount:transom-system:transom"},
        "status": {"allowed": False},
    }
    namespace = {"kind": "Namespace", "metadata": {"name": NS, "deletionTimestamp": "2026-11-23T11:00:00Z"}}
    found = build_overview(seen(proxy(1, 1), lease(1), review, namespace))
    assert found.rights == (
        "system:serviceaccount:transom-system:transom may not update configmaps transom-rollouts in transom-system",
    )
    assert found.terminating
    text = "\n".join(line.text for line in iter_status_lines(found, NOW))
    assert "may not update configmaps" in text
    assert "is being deleted since" in text
    assert msgspec.to_builtins(found)["rights"]


@pytest.mark.parametrize("seconds_ago", [1, 9000])
def test_writes_that_are_refused_are_reported_while_the_leader_works(seconds_ago: float) -> None:
    held = lease(seconds_ago)
    held["metadata"]["annotations"] = {"transom.dev/refused-writes": "create configmaps in transom-system: exceeded quota: q"}
    found = seen(proxy(1, 1), held)
    works = seconds_ago < 60
    text = "\n".join(line.text for line in iter_status_lines(build_overview(found), NOW))
    assert ("exceeded quota: q" in text) == works
    findings = [item for item in diagnose(found) if item.id == "writes-refused"]
    assert [("exceeded quota: q" in item.evidence) for item in findings] == [True] * works


def test_doctor_lists_each_missing_right() -> None:
    rights = [f"patch kind{number}s in {NS}" for number in range(40)]
    user = f"system:serviceaccount:{NS}:transom"
    reviews = tuple({"metadata": {"name": right}, "spec": {"user": user}, "status": {"allowed": False}} for right in rights)
    found = msgspec.structs.replace(seen(), objects={"SubjectAccessReview": reviews})
    (finding,) = [item for item in diagnose(found) if item.id == "rights-missing"]
    assert all(right in finding.evidence for right in rights)


@pytest.mark.parametrize(
    ("refused", "right", "doubted"),
    [
        ("patch windowsinstances.transom.dev/status in transom-system: no", "", {"WindowsInstance"}),
        ("patch egressproxies.transom.dev/status: no; create configmaps: no", "", {"EgressProxy"}),
        ("patch windowsinstances.transom.dev in transom-system: no", "", set()),
        ("", "patch windowsinstances.transom.dev/status in transom-system", {"WindowsInstance"}),
        ("", "patch egressproxies.transom.dev/status", {"EgressProxy"}),
        ("", "patch egressproxies.transom.dev", set()),
    ],
)
def test_a_status_that_the_operator_cannot_write_is_not_ready(refused: str, right: str, doubted: set[str]) -> None:
    held = lease(1)
    held["metadata"]["annotations"] = {"transom.dev/refused-writes": refused}
    found = seen(proxy(1, 1), host("win-1", 1, 1), held)
    user = f"system:serviceaccount:{NS}:transom"
    review = {"metadata": {"name": right}, "spec": {"user": user}, "status": {"allowed": False}}
    reviews = (review,) if right else ()
    found = msgspec.structs.replace(found, objects={**found.objects, "SubjectAccessReview": reviews})
    overview = build_overview(found)
    assert {row.kind for row in overview.objects if row.reason == "StatusRefused"} == doubted
    assert all((row.ready == "True") == (row.kind not in doubted) for row in overview.objects)


def test_a_lease_that_nobody_may_take_for_long_names_its_end() -> None:
    held = lease(90, "stranger")
    held["spec"]["leaseDurationSeconds"] = 31_536_000
    found = seen(proxy(1, 1), held)
    assert build_overview(found).leader is not None
    assert not build_overview(found).leader.working  # type: ignore[union-attr]
    (finding,) = [item for item in diagnose(found) if item.id == "leader-missing"]
    assert "31,536,000" in finding.evidence
    assert finding.command == f"kubectl delete lease transom -n {NS}"
