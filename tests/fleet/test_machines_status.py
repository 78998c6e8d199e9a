"""What is said of the machines of many clusters: one word for each EgressProxy."""

from tests.fleet.manifests import cluster, egress_proxy, read

from transom.controllers.fleet.machine_rollout import Decision, Group, Standing
from transom.controllers.fleet.machines_status import ClusterMachines, verdicts
from transom.proxy.settings import Egress

MANY = 1000


def test_a_thousand_clusters_are_one_word() -> None:
    names = [f"c{number}" for number in range(MANY)]
    objects, _ = read(egress_proxy(), *(cluster(name) for name in names))
    found = {("org-giantswarm", name): _found(name) for name in names}
    group = Group("MachineDeployment", "workers", 3, 3, 3, 3, "2026-11-21T12:00:00Z")
    standings = {key: Standing(key, (group,), automatic=False) for key in found}
    said = verdicts(objects, found, standings, Decision(), {})
    assert set(said) == {"cluster"}
    verdict = said["cluster"]["MachinesOutdated"]
    assert verdict.message == (
        "3,000 machines of 1,000 clusters are older than their settings; "
        "1,000 clusters wait for a rollout by hand, or for spec.rollout: Automatic"
    )


def test_what_the_server_refuses_is_named_and_the_rest_counted() -> None:
    names = [f"c{number}" for number in range(MANY)]
    objects, _ = read(egress_proxy(), *(cluster(name) for name in names))
    found = {("org-giantswarm", name): _found(name) for name in names}
    said = verdicts(objects, found, {}, Decision(), {key: f"{key[1]}: denied" for key in found})
    message = said["cluster"]["MachinesOutdated"].message
    assert "refused: c0: denied, c1: denied, c2: denied and 997 more" in message
    assert len(message) < 200


def _found(name: str) -> ClusterMachines:
    return ClusterMachines(Egress(), name, False, False, (), (), None, ("org-giantswarm", name))
