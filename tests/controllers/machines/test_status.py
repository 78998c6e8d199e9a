"""What is said of the machines of many clusters: one word for each EgressProxy."""

import msgspec
from tests.support.management.manifests import cluster, egress_proxy, read

from transom.controllers.machines.rollout import MachineGroup, MachinesDecision, MachinesRolloutState
from transom.controllers.machines.status import ClusterMachines, build_conditions
from transom.kube.store import ObjectKey
from transom.proxy.settings import Egress

MANY = 1000


def test_a_thousand_clusters_are_one_word() -> None:
    names = [f"c{number}" for number in range(MANY)]
    objects, _ = read(egress_proxy(), *(cluster(name) for name in names))
    found = {("org-giantswarm", name): _found(name) for name in names}
    group = MachineGroup("MachineDeployment", "workers", 3, 3, 3, 3, "2026-11-21T12:00:00Z")
    standings = {key: MachinesRolloutState(key, (group,), automatic=False) for key in found}
    said = build_conditions(objects, found, standings, MachinesDecision(), {})
    assert set(said) == {"cluster"}
    condition = said["cluster"]["MachinesOutdated"]
    assert condition.message == (
        "3,000 machines of 1,000 clusters are older than their settings; "
        "1,000 clusters wait for a rollout by hand, or for spec.rollout: Automatic"
    )


def test_what_the_server_refuses_is_named_and_the_rest_counted() -> None:
    names = [f"c{number}" for number in range(MANY)]
    objects, _ = read(egress_proxy(), *(cluster(name) for name in names))
    found = {("org-giantswarm", name): _found(name) for name in names}
    said = build_conditions(objects, found, {}, MachinesDecision(), {key: f"{key[1]}: denied" for key in found})
    message = said["cluster"]["MachinesOutdated"].message
    assert "refused: c0: denied, c1: denied, c2: denied and 997 more" in message
    assert len(message) < 200


def test_clusters_whose_list_lacks_their_machines_are_one_word() -> None:
    names = [f"c{number}" for number in range(MANY)]
    objects, _ = read(egress_proxy(), *(cluster(name) for name in names))
    found = {ObjectKey("org-giantswarm", name): _found(name) for name in names}
    said = build_conditions(objects, found, {}, MachinesDecision(), {})["cluster"]["MachineNetworkMissing"]
    assert (said.status, said.reason) == ("False", "Covered")
    found = {key: msgspec.structs.replace(item, uncovered=("10.0.1.5", "10.0.1.6")) for key, item in found.items()}
    said = build_conditions(objects, found, {}, MachinesDecision(), {})["cluster"]["MachineNetworkMissing"]
    assert (said.status, said.reason) == ("True", "NotCovered")
    assert "org-giantswarm/c0, org-giantswarm/c1, org-giantswarm/c2 and 997 more: of the Machines of" in said.message
    assert "no item of NO_PROXY covers 10.0.1.5, 10.0.1.6" in said.message


def test_clusters_without_entries_are_one_word() -> None:
    names = [f"c{number}" for number in range(MANY)]
    objects, _ = read(egress_proxy(), *(cluster(name) for name in names))
    found = {ObjectKey("org-giantswarm", name): _found(name) for name in names}
    said = build_conditions(objects, found, {}, MachinesDecision(), {})["cluster"]["MachinesNotSupported"]
    assert (said.status, said.reason) == ("False", "Supported")
    found = {key: msgspec.structs.replace(item, unsupported=("K0sControlPlane",)) for key, item in found.items()}
    said = build_conditions(objects, found, {}, MachinesDecision(), {})["cluster"]["MachinesNotSupported"]
    assert (said.status, said.reason) == ("True", "KindNotSupported")
    assert "org-giantswarm/c0 (K0sControlPlane)" in said.message
    assert len(said.message) < 300


def _found(name: str) -> ClusterMachines:
    return ClusterMachines(Egress(), name, False, False, (), (), None, ("org-giantswarm", name))
