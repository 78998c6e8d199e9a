"""What `transom status --wait` waits for: a table of one thing that is missing at a time."""

from datetime import UTC, datetime
from typing import Any

import pytest

from transom.diagnosis.overview import build_overview
from transom.diagnosis.snapshot import ClusterSnapshot, ReadFailure
from transom.diagnosis.unready_items import (
    ALL_HOSTS,
    SOME_HOSTS,
    Part,
    WaitCriteria,
    explain_halt,
    find_unready,
    list_unread_parts,
    list_waited_hosts,
)
from transom.pods.outdated_pods import OutdatedWorkload

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
NS = "transom-system"


def object_(name: str, conditions: dict[str, tuple[str, str]] | None = None, seen: int = 1, **more: Any) -> dict[str, Any]:
    listed = [
        {"type": type_, "status": status, "reason": reason, "observedGeneration": seen}
        for type_, (status, reason) in (conditions or {"Ready": ("True", "Ready")}).items()
    ]
    meta = {"name": name, "namespace": NS, "generation": 1, **more.pop("metadata", {})}
    status = {"conditions": listed, "observedGeneration": seen, **more.pop("status", {})}
    return {"metadata": meta, "spec": more.pop("spec", {}), "status": status}


def base(**more: Any) -> dict[str, Any]:
    status = {"settings": "abc", **more.pop("status", {})}
    return object_("cluster", more.pop("conditions", None), status=status, **more)


def host(name: str, **more: Any) -> dict[str, Any]:
    status = {"settings": "abc", **more.pop("status", {})}
    return object_(name, more.pop("conditions", None), status=status, **more)


def lease(renewed: str = "2026-11-28T11:59:58Z") -> dict[str, Any]:
    return {"metadata": {"name": "transom", "namespace": NS}, "spec": {"holderIdentity": "a", "renewTime": renewed}}


def deployment(**status: int) -> dict[str, Any]:
    known = {"availableReplicas": 2, "updatedReplicas": 2, "observedGeneration": 1, **status}
    return {"metadata": {"name": "transom", "namespace": NS, "generation": 1}, "spec": {"replicas": 2}, "status": known}


def cluster(**changed: Any) -> ClusterSnapshot:
    objects = {
        "EgressProxy": (base(),),
        "WindowsInstance": (host("win-1"), host("win-2")),
        "Lease": (lease(),),
        "Deployment": (deployment(),),
        "MutatingWebhookConfiguration": (),
        "Cluster": (),
    }
    unread = changed.pop("unread", ())
    given = {kind: tuple(item) for kind, item in changed.items()}
    kept = {kind: entry for kind, entry in {**objects, **given}.items() if kind not in {item.what for item in unread}}
    return ClusterSnapshot("server", NS, NOW, kept, unread)


PAUSED = host("win-2", spec={"paused": True})
HALTED = {"Ready": ("False", "RolloutHalted"), "RolloutHalted": ("True", "TwoFailures")}


@pytest.mark.parametrize(
    ("seen", "wanted", "expected"),
    [
        (cluster(), WaitCriteria(ALL_HOSTS), []),
        (cluster(Lease=[]), WaitCriteria(ALL_HOSTS), [("operator", "", "NotRunning")]),
        (cluster(Lease=[lease("2026-11-28T11:00:00Z")]), WaitCriteria(ALL_HOSTS), [("operator", "", "NotRunning")]),
        (cluster(Lease=[]), WaitCriteria((Part.HOSTS,)), []),
        (cluster(unread=(ReadFailure("Lease", "forbidden"),)), WaitCriteria(ALL_HOSTS), []),
        (
            cluster(Deployment=[deployment(availableReplicas=1)]),
            WaitCriteria(ALL_HOSTS),
            [("operator", "Deployment/transom", "NotAvailable")],
        ),
        (
            cluster(Deployment=[deployment(updatedReplicas=0)]),
            WaitCriteria(ALL_HOSTS),
            [("operator", "Deployment/transom", "NotAvailable")],
        ),
        (
            cluster(Deployment=[deployment(observedGeneration=0)]),
            WaitCriteria(ALL_HOSTS),
            [("operator", "Deployment/transom", "NotAvailable")],
        ),
        (
            cluster(EgressProxy=[base(seen=0)]),
            WaitCriteria((Part.SETTINGS,)),
            [("settings", "EgressProxy/cluster", "NotObserved")],
        ),
        (
            cluster(EgressProxy=[base(conditions={"Ready": ("False", "EndpointFailed")})]),
            WaitCriteria(ALL_HOSTS),
            [("settings", "EgressProxy/cluster", "EndpointFailed")],
        ),
        (
            cluster(EgressProxy=[], WindowsInstance=[]),
            WaitCriteria(ALL_HOSTS),
            [("settings", "EgressProxy/cluster", "NotFound")],
        ),
        (cluster(EgressProxy=[]), WaitCriteria(ALL_HOSTS), []),
        (
            cluster(WindowsInstance=[host("win-1"), host("win-2", conditions={"Ready": ("False", "Unreachable")})]),
            WaitCriteria(ALL_HOSTS),
            [("hosts", "win-2", "Unreachable")],
        ),
        (
            cluster(WindowsInstance=[host("win-1", conditions={"Ready": ("False", "Unreachable")}), host("win-2")]),
            WaitCriteria(SOME_HOSTS, ("win-2",)),
            [],
        ),
        (cluster(WindowsInstance=[host("win-1", seen=0)]), WaitCriteria(ALL_HOSTS), [("hosts", "win-1", "NotObserved")]),
        (
            cluster(WindowsInstance=[host("win-1", status={"settings": "older"})]),
            WaitCriteria(ALL_HOSTS),
            [("hosts", "win-1", "Pending")],
        ),
        (
            cluster(WindowsInstance=[host("win-1", status={"settings": "theirs"}, spec={"clusterRef": {"name": "a"}})]),
            WaitCriteria(ALL_HOSTS),
            [],
        ),
        (
            cluster(EgressProxy=[base(conditions={"Ready": ("True", "Ready"), "Valid": ("False", "Invalid")})]),
            WaitCriteria(SOME_HOSTS, ("win-1",)),
            [("hosts", "win-1", "Invalid")],
        ),
        (
            cluster(WindowsInstance=[host("win-1", metadata={"deletionTimestamp": "2026-11-28T11:00:00Z"})]),
            WaitCriteria(ALL_HOSTS),
            [("hosts", "win-1", "Removing")],
        ),
        (cluster(WindowsInstance=[host("win-1"), PAUSED]), WaitCriteria(ALL_HOSTS), []),
        (
            cluster(WindowsInstance=[host("win-1"), PAUSED]),
            WaitCriteria(SOME_HOSTS, ("win-*",)),
            [("hosts", "win-2", "Paused")],
        ),
        (cluster(), WaitCriteria(SOME_HOSTS, ("win-1", "lin-*")), [("hosts", "lin-*", "NotFound")]),
        (cluster(WindowsInstance=[]), WaitCriteria(SOME_HOSTS, (), "env=prod"), [("hosts", "env=prod", "NotFound")]),
        (
            cluster(EgressProxy=[base(conditions={"Ready": ("True", "Ready"), "PodsInjected": ("False", "NotCalled")})]),
            WaitCriteria(ALL_HOSTS),
            [("webhook", "", "NotCalled")],
        ),
        (
            cluster(EgressProxy=[base(conditions={"Ready": ("True", "Ready"), "PodsInjected": ("True", "Injected")})]),
            WaitCriteria(ALL_HOSTS),
            [],
        ),
        (
            cluster(EgressProxy=[base(conditions={"Ready": ("True", "Ready"), "ClustersApplied": ("False", "InProgress")})]),
            WaitCriteria(ALL_HOSTS),
            [("clusters", "EgressProxy/cluster ClustersApplied", "InProgress")],
        ),
    ],
)
def test_what_is_missing(seen: ClusterSnapshot, wanted: WaitCriteria, expected: list[tuple[str, str, str]]) -> None:
    found = find_unready(seen, build_overview(seen), wanted)
    assert [(item.part, item.name, item.reason) for item in found] == expected


def test_pods_count_where_they_are_asked_for() -> None:
    seen, old = cluster(), OutdatedWorkload("shop", "Deployment", "web", 5, 3, "kubectl rollout restart deployment/web -n shop")
    assert find_unready(seen, build_overview(seen), WaitCriteria(ALL_HOSTS), (old,)) == ()
    (missing,) = find_unready(seen, build_overview(seen), WaitCriteria((Part.PODS,)), (old,))
    assert (missing.display_name, missing.reason) == ("Deployment/shop/web", "Outdated")
    assert find_unready(seen, build_overview(seen), WaitCriteria((Part.PODS,)), None) == ()


def test_a_part_that_may_not_be_read_is_named() -> None:
    seen = cluster(unread=(ReadFailure("WindowsInstance", "forbidden"),))
    assert list_unread_parts(seen, ALL_HOSTS) == (Part.HOSTS,)
    assert list_unread_parts(cluster(), (*ALL_HOSTS, Part.PODS)) == ()


def test_a_rollout_is_halted_by_the_settings_as_they_are_now() -> None:
    assert explain_halt(cluster(EgressProxy=[base(conditions=HALTED)]))
    assert not explain_halt(cluster(EgressProxy=[base(conditions=HALTED, seen=0)]))
    assert not explain_halt(cluster())
    assert not explain_halt(cluster(EgressProxy=[]))


def test_hosts_are_waited_for_in_the_order_of_their_numbers() -> None:
    seen = cluster(WindowsInstance=[host("win-10"), PAUSED, host("win-1")])
    assert list_waited_hosts(seen, ()) == ["win-1", "win-10"]
    assert list_waited_hosts(seen, ("win-*",)) == ["win-1", "win-2", "win-10"]
