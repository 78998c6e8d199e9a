"""The bootstrap phase: the objects written by a command, and taken over by an operator without a change."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.management import machines, manifests
from tests.support.management.apps import app, release
from tests.support.management.cluster_apps_operator import desired_objects
from tests.support.management.commands import transom, write
from tests.support.management.management import Management
from tests.support.management.manifests import RFC_LINE

from transom.controllers.clusters.bootstrap import run_for_each_cluster
from transom.controllers.clusters.objects import ObjectResult
from transom.kube.resources import SECRETS
from transom.kube.store import ObjectKey

pytestmark = pytest.mark.lab
VALUES, SYSTEMD = "mycluster-cluster-values", "mycluster-systemd-proxy"
ALL = (("ConfigMap", VALUES), ("Secret", VALUES), ("Secret", SYSTEMD))


async def test_a_fresh_cluster_gets_objects_that_the_operator_does_not_change(management: Management, tmp_path: Path) -> None:
    management.namespace += "-that-is-not-there-yet"
    manifests_directory = str(write(tmp_path, management))
    await management.cluster()
    arguments = ("-f", manifests_directory, "--objects", "--context", "lab")
    code, output, _ = await transom(management, tmp_path, "diff", *arguments)
    assert (code, output.count("to create")) == (1, 3)
    assert await management.objects() == set()
    code, output, error = await transom(management, tmp_path, "apply", *arguments)
    assert (code, output.count("created"), error) == (0, 3, error)
    await management.until_objects(*ALL)
    since = management.control_plane.get_moment()
    code, output, _ = await transom(management, tmp_path, "apply", *arguments, "-o", "json")
    assert code == 0
    assert {obj["result"] for obj in json.loads(output)["objects"]} == {"unchanged"}
    code, output, error = await transom(management, tmp_path, "diff", *arguments)
    assert (code, output.count("unchanged")) == (0, 3), error
    await management.settings()
    async with management.operator() as operator:
        await management.until_condition("ClustersApplied", "Applied")
        await management.settled(operator)
    assert management.writes(since) == []
    assert f"noProxy: {RFC_LINE}\n" in (await management.data("ConfigMap", VALUES) or {})["values"]


async def test_what_waits_on_the_server_alone_gets_its_objects(management: Management, tmp_path: Path) -> None:
    file = {"path": "/x", "contentFrom": {"secret": {"name": SYSTEMD, "key": "containerdProxy"}}}
    for value in (machines.template("win", machines.NPIPE, labels={}), machines.template(spec={"files": [file]}, labels={})):
        value["metadata"]["namespace"] = management.org
        await management.put(value)
    await management.put(release("reader", management.org, {}, valuesFrom=[{"kind": "Secret", "name": VALUES}]))
    await management.cluster()
    directory = write(tmp_path, management)
    arguments = ("-f", str(directory), "--objects", "--context", "lab")
    windows = ("Secret", "mycluster-windows-proxy")
    code, _, error = await transom(management, tmp_path, "apply", *arguments)
    assert code == 0, error
    await management.until_objects(*ALL, windows)
    # the settings are gone: who waits for something finds it, without a proxy
    left = [manifests.egress_proxy(), manifests.cluster("mycluster", management.org, "v1beta2")]
    (directory / "manifests.yaml").write_text(yaml.safe_dump_all(left))
    code, output, _ = await transom(management, tmp_path, "diff", *arguments)
    assert code == 1
    assert {tuple(line.rsplit(maxsplit=2)) for line in output.splitlines()} == {
        ("to change", "Secret", f"{management.org}/{SYSTEMD}"),
        ("to change", "Secret", f"{management.org}/{VALUES}"),
        ("to change", "ConfigMap", f"{management.org}/{VALUES}"),
        ("to delete", "Secret", f"{management.org}/{windows[1]}"),
    }
    code, output, _ = await transom(management, tmp_path, "apply", *arguments)
    assert (code, output.count("changed"), output.count("deleted")) == (0, 3, 1)
    assert await management.data("Secret", SYSTEMD) == {"containerdProxy": "[Service]\n", "env": "", "shell": ""}
    since = management.control_plane.get_moment()
    await management.put(manifests.egress_proxy())
    async with management.operator() as operator:
        await management.until_condition("ClustersApplied", "Applied")
        await management.settled(operator)
    assert management.writes(since) == []
    (directory / "manifests.yaml").write_text(yaml.safe_dump_all(left[:1]))
    code, output, error = await transom(management, tmp_path, "apply", *arguments)
    assert (code, output) == (0, "")
    assert "no Cluster of the manifests gets objects by these settings" in error


async def test_objects_need_to_be_told_where_and_leave_what_is_somebody_elses(management: Management, tmp_path: Path) -> None:
    manifests_directory = str(write(tmp_path, management))
    code, _, error = await transom(management, tmp_path, "apply", "-f", manifests_directory, "--objects")
    assert code == 2
    assert "--objects needs -f PATH, and --context NAME" in error
    theirs = {"kind": "Secret", "metadata": {"name": SYSTEMD, "namespace": management.org}, "data": {"theirs": "aHVudGVyMg=="}}
    await management.put(theirs, "somebody")
    code, output, _ = await transom(management, tmp_path, "apply", "-f", manifests_directory, "--objects", "--context", "lab")
    assert code == 1
    assert f"not Transom's    Secret {management.org}/{SYSTEMD}" in output
    assert await management.data("Secret", SYSTEMD) == {"theirs": "hunter2"}
    held = await management.get("Secret", VALUES)
    assert held is not None
    # the Cluster is not on the server: nobody to belong to
    assert "ownerReferences" not in held["metadata"]
    invalid = str(write(tmp_path, management, noProxy="*.example.com"))
    code, _, error = await transom(management, tmp_path, "apply", "-f", invalid, "--objects", "--context", "lab")
    assert (code, "spec.noProxy" in error) == (2, True)
    await management.client.delete(SECRETS, SYSTEMD, management.org)


async def test_render_prints_what_apply_would_write_and_what_apps_need(management: Management, tmp_path: Path) -> None:
    apps = [
        {
            "apiVersion": "application.giantswarm.io/v1alpha1",
            "kind": "App",
            "namespace": management.org,
            "name": "mycluster-cert",
        },
        {"kind": "HelmRelease", "namespace": management.org, "name": "chart-operator"},
        {"kind": "Kustomization", "namespace": management.org, "name": "mycluster-else"},
    ]
    directory = str(write(tmp_path, management, apps=apps))
    code, output, error = await transom(management, tmp_path, "render", "-f", directory)
    assert code == 0
    assert "spec.apps[2].kind" in error
    assert "must be App or HelmRelease" in error
    assert f"\n        noProxy: {RFC_LINE}\n" in output
    documents = [item for item in yaml.safe_load_all(output) if item]
    assert [(document["kind"], document["metadata"]["name"]) for document in documents] == [
        ("Secret", SYSTEMD),
        ("Secret", VALUES),
        ("ConfigMap", VALUES),
        ("App", "mycluster-cert"),
        ("HelmRelease", "chart-operator"),
    ]
    reference = {"name": VALUES, "namespace": management.org}
    assert documents[3]["spec"] == {"config": {"configMap": reference, "secret": reference}}
    assert documents[4]["apiVersion"] == "helm.toolkit.fluxcd.io/v2"
    assert [item["kind"] for item in documents[4]["spec"]["valuesFrom"]] == ["ConfigMap", "Secret"]
    # what is printed goes onto objects that are there
    for value in (app("mycluster-cert", management.org), release("chart-operator", management.org, {})):
        await management.put(value)
    for value in documents[3:]:
        await management.put(value, "cluster-values")
    held = await management.get("HelmRelease", "chart-operator")
    assert held is not None
    assert (held["spec"]["valuesFrom"], held["spec"]["interval"]) == (documents[4]["spec"]["valuesFrom"], "15m")
    code, _, _ = await transom(management, tmp_path, "render", "-f", directory, "--output-dir", str(tmp_path / "out"))
    assert code == 0
    folder = tmp_path / "out" / "objects" / management.org
    assert {path.name for path in folder.iterdir()} == {
        f"secret-{SYSTEMD}.yaml",
        f"secret-{VALUES}.yaml",
        f"configmap-{VALUES}.yaml",
    }
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


LOST = (
    *("baseDomain", "bootstrapMode.apiServerPodPort", "bootstrapMode.enabled", "chartOperator.cni.install"),
    *("ciliumNetworkPolicy.enabled", "cluster.private", "clusterCA", "clusterCIDR", "clusterDNSIP", "clusterID"),
    *("externalDNSIP", "gcpProject", "provider", "subscriptionID"),
)
"""What the peer writes and Transom does not."""


async def test_a_peers_objects_are_listed_and_handed_over_when_nothing_is_lost(management: Management, tmp_path: Path) -> None:
    peer = desired_objects("proxied", "mycluster", management.org)
    for item in peer.values():
        await management.put(item, "peer")
    await management.put(desired_objects("proxied", "gone", management.org)["Secret", "gone-systemd-proxy"], "peer")
    await management.cluster()
    await management.settings()
    arguments = ("adopt", "--from", "cluster-apps-operator", "--context", "lab", "-o", "json")

    async def listed(*more: str) -> dict[tuple[str, str], tuple[str, tuple[str, ...]]]:
        code, output, error = await transom(management, tmp_path, *arguments, *more)
        assert code == 1, error
        return {(load["kind"], load["name"]): (load["result"], tuple(load["loses"])) for load in json.loads(output)}

    lost = ("kept: it would lose values", LOST)
    rest = {
        ("ConfigMap", VALUES): lost,
        ("Secret", "gone-systemd-proxy"): ("kept: the settings do not require this object", ()),
    }
    secrets = (("Secret", SYSTEMD), ("Secret", VALUES))
    assert await listed() == rest | dict.fromkeys(secrets, ("to hand over", ()))
    held = await management.get("Secret", SYSTEMD)
    assert held is not None
    assert "transom.dev/adopt" not in held["metadata"]["annotations"]
    assert await listed("--yes") == rest | dict.fromkeys(secrets, ("handed over", ()))
    async with management.operator():
        await management.until_data("Secret", SYSTEMD, "containerdProxy", "192.168.52.220")
        await management.until_data("Secret", VALUES, "values", "192.168.52.220")
        _, _, message = await management.until_condition("Conflict", "Conflict")
        assert f"ConfigMap {management.org}/{VALUES}" in message
        assert "baseDomain" in (await management.data("ConfigMap", VALUES) or {})["values"]


async def test_clusters_that_the_peer_gives_no_proxy_are_named_before_they_get_one(
    management: Management, tmp_path: Path
) -> None:
    def theirs(name: str, identity: str) -> dict[str, Any]:
        labels = {"giantswarm.io/cluster": identity, "giantswarm.io/managed-by": "cluster-apps-operator"}
        metadata = {"name": name, "namespace": management.org, "labels": labels}
        return {"kind": "Secret", "metadata": metadata, "data": {"values": base64.b64encode(b"{}").decode()}}

    for name, private in (("inside", True), ("outside", False), ("new", False)):
        await management.cluster(name, labels={"site": "a"} | ({"vpc": "private"} if private else {}))
        if name != "new":
            await management.put(theirs(f"{name}-cluster-values", name), "peer")
    await management.put(theirs("inside-systemd-proxy", "inside"), "peer")
    await management.settings()
    arguments = ("adopt", "--from", "cluster-apps-operator", "--context", "lab", "--yes")
    code, output, error = await transom(management, tmp_path, *arguments)
    assert code == 1
    assert f"Cluster {management.org}/outside: kept: the settings give a proxy to this cluster" in output
    assert "Cluster" not in output.replace(f"Cluster {management.org}/outside", "").replace("this cluster", "")
    assert "handed over" not in output.replace("to hand over", "")
    assert 'set spec.clusterSelector of EgressProxy/cluster to {"matchLabels": {"vpc": "private"}}' in error
    assert "kubectl label" not in error
    await management.merge("EgressProxy", "cluster", {"spec": {"clusterSelector": {"matchLabels": {"vpc": "private"}}}})
    code, output, error = await transom(management, tmp_path, *arguments)
    assert "spec.clusterSelector" not in error
    assert f"Secret {management.org}/inside-systemd-proxy: handed over" in output
    assert f"Secret {management.org}/outside-cluster-values: kept: the settings do not require this object" in output


async def test_after_ctrl_c_it_is_known_which_clusters_are_done() -> None:
    begun, done = asyncio.Event(), ObjectResult("Secret", "org", "one-cluster-values", "created")

    async def work(place: ObjectKey, _: object) -> list[ObjectResult]:
        if place.name == "one":
            return [done]
        begun.set()
        await asyncio.Event().wait()
        return []

    chosen = [(ObjectKey("org", name), ()) for name in ("one", "two", "three")]
    working = asyncio.create_task(run_for_each_cluster(chosen, [], work))
    await begun.wait()
    working.cancel()
    report = await working
    assert (report.objects, report.stopped) == ((done,), True)
    assert [error.partition(": ")[0] for error in report.errors] == ["cluster org/two", "cluster org/three"]
