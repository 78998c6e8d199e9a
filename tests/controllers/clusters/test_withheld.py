"""Credentials that were not sent: a Cluster that anybody makes gets nothing, and what is there stays as it is."""

from pathlib import Path

import pytest
from tests.support.management import machines, manifests
from tests.support.management.commands import transom, write
from tests.support.management.kubeconfigs import put_kubeconfig
from tests.support.management.management import CLUSTERS, Management
from tests.support.management.rollouts import put

pytestmark = pytest.mark.lab
VALUES, SYSTEMD = "mycluster-cluster-values", "mycluster-systemd-proxy"
ALL = (("ConfigMap", VALUES), ("Secret", VALUES), ("Secret", SYSTEMD))
FORGED = ("Secret", "forged-systemd-proxy")
NOBODY = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""


async def versions(management: Management) -> dict[tuple[str, str], str]:
    """Of the objects of the cluster, each of which is there."""
    found = {}
    for kind, name in ALL:
        held = await management.get(kind, name)
        assert held is not None, name
        found[kind, name] = held["metadata"]["resourceVersion"]
    return found


async def until_withheld(management: Management, clusters: int) -> str:
    what = "1 cluster gets no settings" if clusters == 1 else f"{clusters} clusters get no settings"

    async def counted() -> str | None:
        status, reason, message = (await management.conditions()).get("CredentialsWithheld", ("", "", ""))
        return message if (status, reason) == ("True", "NoClusterSelector") and what in message else None

    return str(await management.until(counted))


async def test_a_cluster_gets_credentials_only_where_they_were_sent(management: Management) -> None:
    await management.put(manifests.credentials(namespace=management.namespace))
    await management.put(manifests.unsent())
    await management.cluster()
    async with management.operator() as operator:
        message = await until_withheld(management, 1)
        assert message.startswith("spec.clusterSelector: is not set")
        assert f"({management.org}/mycluster)" in message
        await management.until_condition("ClustersApplied", "CredentialsWithheld")
        await management.settled(operator)
        assert await management.objects() == set()

        await management.put(manifests.base())
        await management.until_objects(*ALL)
        await management.until_condition("CredentialsWithheld", "NotWithheld")
        await management.until_condition("ClustersApplied", "Applied")
        before = await versions(management)

        # neither emptied nor removed, nor written anew: anybody may make a Secret of that name, with those labels
        await management.put(manifests.unsent())
        await management.put(manifests.credentials("hunter2-later", management.namespace))
        await until_withheld(management, 1)
        labels = {"giantswarm.io/cluster": "forged", "app.kubernetes.io/managed-by": "transom"}
        metadata = {"name": FORGED[1], "namespace": management.org, "labels": labels}
        await management.put({"kind": "Secret", "metadata": metadata})
        await management.cluster("dummy")
        await management.cluster("forged")
        await until_withheld(management, 3)
        await management.settled(operator)
        assert await versions(management) == before
        assert await management.objects() == {*ALL, FORGED}
        assert await management.data(*FORGED) == {}
    async with management.operator() as operator:
        await until_withheld(management, 3)
        await management.settled(operator)
        assert await versions(management) == before
        assert await management.objects() == {*ALL, FORGED}
        # a Cluster that is gone takes its objects along, as ever
        await management.client.delete(CLUSTERS, "mycluster", management.org)
        await management.until_objects(FORGED)


async def test_neither_templates_nor_the_clusters_own_server_are_told(management: Management) -> None:
    await management.put(manifests.credentials(namespace=management.namespace))
    await management.put(manifests.unsent(propagate=True))
    await management.cluster()
    await put(management, machines.template(), machines.control_plane())
    # nobody listens there: that it was asked would be told
    await put_kubeconfig(management, NOBODY)
    async with management.operator(controllers=("egress", "clusters", "machines", "propagation")) as operator:
        await until_withheld(management, 1)
        await management.settled(operator)
        assert management.writes() == []
        assert "Propagated" not in await management.conditions()
        await management.put(manifests.base(propagate=True))
        await management.until_condition("Propagated", "Failed")
        await management.until_data("Secret", SYSTEMD, "containerdProxy", "HTTP_PROXY")


async def test_a_command_holds_back_what_the_operator_does(management: Management, tmp_path: Path) -> None:
    await management.cluster()
    for spec, item in (({"clusterSelector": None}, set()), ({}, set(ALL))):
        arguments = ("-f", str(write(tmp_path, management, **spec)), "--objects", "--context", "lab")
        code, output, error = await transom(management, tmp_path, "apply", *arguments)
        assert code == 0, error
        assert ("spec.clusterSelector" in error) == (not item)
        assert bool(output) == bool(item)
        assert await management.objects() == item
    before = await versions(management)
    arguments = ("-f", str(write(tmp_path, management, clusterSelector=None)), "--objects", "--context", "lab")
    assert (await transom(management, tmp_path, "apply", *arguments))[0] == 0
    assert await versions(management) == before
