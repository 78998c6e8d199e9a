"""What an EgressProxy says of the clusters that it holds for: tables."""

from typing import Any

import pytest
from tests.support.management.manifests import base, cluster, credentials, egress_proxy, read, unsent

from transom.controllers.clusters.status import ClusterReport, build_conditions

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
    found = build_conditions(objects, settings, reports)
    return {
        name: {type_: (condition.reason, condition.message) for type_, condition in some.items()}
        for name, some in found.items()
    }


TWO = (base(), credentials(), cluster("a"), cluster("b"))


@pytest.mark.parametrize(
    ("reports", "reason", "message"),
    [
        ({}, "InProgress", "2 of 2 clusters are not written yet"),
        ({A: ClusterReport()}, "InProgress", "1 of 2 clusters are not written yet"),
        ({A: ClusterReport(), B: ClusterReport()}, "Applied", "2 clusters have the settings"),
        (
            {A: ClusterReport(failure="forbidden"), B: ClusterReport()},
            "Failed",
            "1 of 2 clusters could not be written: org-giantswarm/a: forbidden",
        ),
        ({A: FOREIGN, B: ClusterReport()}, "Conflict", "see the condition Conflict; all others have the settings"),
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
    assert "Secret org-giantswarm/a-systemd-proxy: not managed by Transom" in found["cluster"]["Conflict"][1]


def test_many_conflicts_are_counted_not_listed() -> None:
    clusters = [cluster(f"c{number:03}") for number in range(50)]
    reports = {("org-giantswarm", f"c{number:03}"): ClusterReport((f"Secret x/c{number:03}",)) for number in range(50)}
    _, message = said(reports, base(), credentials(), *clusters)["cluster"]["Conflict"]
    assert "and 47 more" in message
    assert len(message) < 300


def test_where_openshifts_proxy_is_the_base_the_egress_proxy_speaks_for_it() -> None:
    found = said({A: ClusterReport()}, OPENSHIFT, egress_proxy(), cluster("a"))
    assert found["cluster"]["ClustersApplied"] == ("Applied", "1 cluster has the settings")
    assert said({}, OPENSHIFT, cluster("a")) == {}


def test_clusters_that_credentials_are_withheld_from_are_counted_where_they_come_from() -> None:
    selected = base() | {"metadata": {"name": "own"}}
    selected["spec"] = selected["spec"] | {"clusterSelector": {"matchLabels": {"env": "b"}}}
    clusters = [cluster(f"c{number}") for number in range(5)]
    found = said({B: ClusterReport()}, unsent(), selected, credentials(), *clusters, cluster("b", labels={"env": "b"}))
    reason, message = found["cluster"]["CredentialsWithheld"]
    assert reason == "NoClusterSelector"
    assert message.startswith("spec.clusterSelector: is not set")
    assert "5 clusters get no settings with credentials" in message
    assert "(org-giantswarm/c0, org-giantswarm/c1, org-giantswarm/c2 and 2 more)" in message
    assert found["cluster"]["ClustersApplied"][0] == "CredentialsWithheld"
    assert found["own"]["CredentialsWithheld"][0] == "NotWithheld"
    assert found["own"]["ClustersApplied"] == ("Applied", "1 cluster has the settings")


def test_where_openshifts_credentials_are_withheld_the_egress_proxy_beside_it_says_so() -> None:
    given = OPENSHIFT | {"status": {"httpProxy": "http://user:hunter2@p.example:3128"}}
    assert said({}, given, egress_proxy(), cluster("a"))["cluster"]["CredentialsWithheld"][0] == "NoClusterSelector"
    sent = egress_proxy(clusterSelector={})
    assert said({}, given, sent, cluster("a"))["cluster"]["CredentialsWithheld"][0] == "NotWithheld"
