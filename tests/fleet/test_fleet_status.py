"""What an EgressProxy says of the clusters that it holds for: tables."""

from typing import Any

import pytest
from tests.fleet.manifests import base, cluster, credentials, egress_proxy, read

from transom.controllers.fleet.status import ClusterReport, verdicts

A, B = ("org-giantswarm", "a"), ("org-giantswarm", "b")
FOREIGN = ClusterReport(conflicts=("Secret org-giantswarm/a-systemd-proxy",))
OPENSHIFT = {
    "apiVersion": "config.openshift.io/v1",
    "kind": "Proxy",
    "metadata": {"name": "cluster"},
    "spec": {"httpProxy": "http://p.example:3128"},
    "status": {"httpProxy": "http://p.example:3128", "noProxy": "localhost"},
}


def said(reports: dict[tuple[str, str], ClusterReport], *given: dict[str, Any]) -> dict[str, dict[str, tuple[str, str]]]:
    objects, settings = read(*given)
    found = verdicts(objects, settings.clusters, reports)
    return {name: {type_: (verdict.reason, verdict.message) for type_, verdict in some.items()} for name, some in found.items()}


TWO = (base(), credentials(), cluster("a"), cluster("b"))


@pytest.mark.parametrize(
    ("reports", "reason", "message"),
    [
        ({}, "InProgress", "of 2 clusters, 2 wait to be written"),
        ({A: ClusterReport()}, "InProgress", "of 2 clusters, 1 wait to be written"),
        ({A: ClusterReport(), B: ClusterReport()}, "Applied", "2 clusters have what the settings ask for"),
        (
            {A: ClusterReport(failure="forbidden"), B: ClusterReport()},
            "Failed",
            "of 2 clusters, 1 could not be written: org-giantswarm/a: forbidden",
        ),
        ({A: FOREIGN, B: ClusterReport()}, "Conflict", "see the condition Conflict; all others have what the settings ask for"),
    ],
)
def test_the_clusters_of_a_base(reports: dict[tuple[str, str], ClusterReport], reason: str, message: str) -> None:
    assert said(reports, *TWO)["cluster"]["ClustersApplied"] == (reason, message)


def test_a_layer_speaks_of_its_own_clusters_alone() -> None:
    layer = egress_proxy("own", noProxy="x.example", clusterSelector={"matchLabels": {"env": "b"}})
    given = (base(), credentials(), cluster("a"), cluster("b", labels={"env": "b"}), layer)
    found = said({A: FOREIGN, B: ClusterReport()}, *given)
    assert found["own"]["ClustersApplied"][0] == "Applied"
    assert found["own"]["Conflict"][0] == "NoConflict"
    assert "Secret org-giantswarm/a-systemd-proxy: somebody else's" in found["cluster"]["Conflict"][1]


def test_many_conflicts_are_counted_not_listed() -> None:
    clusters = [cluster(f"c{number:03}") for number in range(50)]
    reports = {("org-giantswarm", f"c{number:03}"): ClusterReport((f"Secret x/c{number:03}",)) for number in range(50)}
    _, message = said(reports, base(), credentials(), *clusters)["cluster"]["Conflict"]
    assert "and 47 more" in message
    assert len(message) < 300


def test_where_openshifts_proxy_is_the_base_the_egress_proxy_speaks_for_it() -> None:
    found = said({A: ClusterReport()}, OPENSHIFT, egress_proxy(), cluster("a"))
    assert found["cluster"]["ClustersApplied"] == ("Applied", "1 cluster has what the settings ask for")
    assert said({}, OPENSHIFT, cluster("a")) == {}
