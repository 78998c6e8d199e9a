"""The objects of workload clusters on a real API server: written once, kept, and gone when they are to be gone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import yaml
from lab.control_plane import Moment
from tests.support.bundles import certificate
from tests.support.management.apps import app, release
from tests.support.management.cluster_apps_operator import desired_objects, reconcile
from tests.support.management.machines import template
from tests.support.management.management import CLUSTERS, RELEASES, TEMPLATES, Management
from tests.support.management.manifests import ENCODED, NO_PROXY, PROXY, RFC_LINE, egress_proxy

from transom.controllers.operator import Operator
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, SECRETS
from transom.kube.store import ObjectKey

pytestmark = pytest.mark.lab
VALUES, SYSTEMD, CA = "mycluster-cluster-values", "mycluster-systemd-proxy", "mycluster-egress-ca"
OWN_SYSTEMD = "mycluster-egress-systemd-proxy"
ALL = (("ConfigMap", VALUES), ("Secret", VALUES), ("Secret", SYSTEMD))


@contextlib.asynccontextmanager
async def with_all_objects(management: Management) -> AsyncIterator[Operator]:
    """A cluster whose objects are all there, and an operator that has nothing to do."""
    await management.cluster()
    await management.settings()
    async with management.operator() as operator:
        await management.until_objects(*ALL)
        await management.settled(operator)
        yield operator


async def test_the_objects_of_a_cluster_are_written_once_and_a_restart_writes_nothing(management: Management) -> None:
    async with with_all_objects(management):
        held = await management.get("Secret", SYSTEMD)
        assert held is not None
        (owner,) = held["metadata"]["ownerReferences"]
        cluster = await management.get("Cluster", "mycluster")
        assert cluster is not None
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Cluster", "mycluster", cluster["metadata"]["uid"])
        assert owner["apiVersion"] == "cluster.x-k8s.io/v1beta2"
        assert ENCODED.replace("%", "%%") in (await management.data("Secret", SYSTEMD) or {})["containerdProxy"]
        values = await management.data("ConfigMap", VALUES)
        assert values is not None
        assert f"\n    noProxy: {RFC_LINE}\n" in values["values"]
        assert (await management.until_condition("ClustersApplied", "Applied"))[0] == "True"
        assert len(management.writes()) == 3
        anchor = await management.get("ConfigMap", VALUES)
        assert "hunter2" not in str(anchor)
    since = management.control_plane.get_moment()
    async with management.operator() as operator:
        await management.settled(operator)
        assert management.writes(since) == []
        # the whole first pass read no Secret but the key
        assert not [entry for entry in _gets(management, since) if entry == management.org]


def _gets(management: Management, since: Moment) -> list[str]:
    entries = management.control_plane.read_audit(since)
    found = [entry["objectRef"] for entry in entries if entry["verb"] == "get" and "objectRef" in entry]
    return [reference.get("namespace", "") for reference in found if reference["resource"] == "secrets"]


async def test_a_change_writes_each_object_once_and_what_does_not_change_not_at_all(management: Management) -> None:
    await management.cluster()
    await management.bundle(certificate("one"))
    await management.settings(trustedCA={"name": "corp-ca"})
    async with management.operator() as operator:
        await management.until_objects(*ALL, ("ConfigMap", CA))
        await management.settled(operator)
        since = management.control_plane.get_moment()
        await management.settings("hunter2 other", trustedCA={"name": "corp-ca"})
        await management.until_data("Secret", SYSTEMD, "containerdProxy", "hunter2%%20other")
        await management.settled(operator)
        # the ConfigMap of the values notes what is in the Secrets
        wanted = [("patch", "configmaps", VALUES), ("patch", "secrets", VALUES), ("patch", "secrets", SYSTEMD)]
        assert sorted(management.writes(since)) == sorted(wanted)


async def test_a_proxy_of_its_own_and_items_of_its_own_are_one_object_each_and_go_with_it(management: Management) -> None:
    for name in ("a", "b", "c"):
        await management.cluster(name, labels={"env": name})
    await management.settings()
    async with management.operator():
        for name in ("a", "b", "c"):
            await management.until_data("ConfigMap", f"{name}-cluster-values", "values", RFC_LINE)
        own = {"httpProxy": "http://own.example:8080", "httpsProxy": "http://own.example:8080"}
        selector = {"matchExpressions": [{"key": "env", "operator": "In", "values": ["a", "b"]}]}
        await management.put(egress_proxy("own", **own, clusterSelector=selector))
        await management.put(egress_proxy("mesh", noProxy="mesh.example", clusterSelector={"matchLabels": {"env": "c"}}))
        for name in ("a", "b"):
            text = await management.until_data("Secret", f"{name}-systemd-proxy", "containerdProxy", "own.example")
            assert "hunter2" not in text
        await management.until_data("ConfigMap", "c-cluster-values", "values", f"{NO_PROXY},mesh.example,svc")
        # no longer selected by its labels
        await management.merge("Cluster", "a", {"metadata": {"labels": {"env": "z"}}}, management.org)
        await management.until_data("Secret", "a-systemd-proxy", "containerdProxy", "192.168.52.220")
        # another id is other objects: none of the old name stays
        await management.merge("Cluster", "a", {"metadata": {"labels": {"giantswarm.io/cluster": "alpha"}}}, management.org)
        ids = [(kind, name.replace("mycluster", id_)) for kind, name in ALL for id_ in ("alpha", "b", "c")]
        await management.until_objects(*ids)
        await management.merge("Cluster", "a", {"metadata": {"labels": {"giantswarm.io/cluster": None}}}, management.org)
        for name in ("own", "mesh"):
            await management.client.delete(EGRESS_PROXIES, name)
        for name in ("a", "b"):
            await management.until_data("Secret", f"{name}-systemd-proxy", "containerdProxy", "192.168.52.220")
        await management.until_data("ConfigMap", "c-cluster-values", "values", f"noProxy: {RFC_LINE}\n")


async def test_gone_means_gone(management: Management) -> None:
    await management.cluster()
    await management.cluster("other")
    await management.settings()
    others = tuple((kind, name.replace("mycluster", "other")) for kind, name in ALL)
    async with management.operator():
        await management.until_objects(*ALL, *others)
        await management.client.delete(CLUSTERS, "other", management.org)
        await management.until_objects(*ALL)
        await management.client.delete(EGRESS_PROXIES, "cluster")
        await management.until_objects()
    # gone also while nobody was looking
    await management.settings()
    async with management.operator():
        await management.until_objects(*ALL)
    await management.client.delete(CLUSTERS, "mycluster", management.org)
    async with management.operator():
        await management.until_objects()


async def test_values_of_our_own_names_stand_beside_a_peers(management: Management) -> None:
    own = "mycluster-egress-values"
    for kind in ("ConfigMap", "Secret"):
        theirs = {"kind": kind, "metadata": {"name": VALUES, "namespace": management.org}, "data": {"values": "eDogMQ=="}}
        await management.put(theirs, "cluster-apps-operator")
    config = {"configMap": {"name": VALUES, "namespace": management.org}}
    await management.put(app("mycluster-chart-operator", management.org, config=config))
    await management.cluster()
    await management.settings(values={"names": "Own"})
    async with management.operator():
        await management.until_data("ConfigMap", own, "values", RFC_LINE)
        await management.until_data("Secret", own, "values", "httpProxy")
        await management.until_condition("ClustersApplied", "Applied")
        await management.until_condition("Conflict", "NoConflict")
        assert await management.data("Secret", VALUES) == {"values": "x: 1"}
        # their operator is gone, and the names are to be theirs
        for resource in (CONFIG_MAPS, SECRETS):
            await management.client.delete(resource, VALUES, management.org)
        await management.settings()
        await management.until_data("Secret", VALUES, "values", "httpProxy")
        await management.until_objects(*ALL)


async def test_a_drop_in_of_our_own_name_stands_beside_a_peers(management: Management) -> None:
    """cluster-apps-operator goes on with its own; a template that names the peer's Secret does not make it ours."""
    peer = desired_objects("proxied", "mycluster", management.org)
    for item in peer.values():
        await management.put(item, "peer")
    named = {"name": SYSTEMD, "key": "containerdProxy"}
    file = {"path": "/etc/systemd/system/containerd.service.d/http-proxy.conf", "contentFrom": {"secret": named}}
    await management.put(template(spec={"files": [file]}, labels={}, namespace=management.org))
    await management.cluster()
    await management.settings(values={"names": "Own", "dropInName": "Own"})
    async with management.operator():
        await management.until_data("Secret", OWN_SYSTEMD, "containerdProxy", "192.168.52.220")
        await management.until_condition("ClustersApplied", "Applied")
        await management.until_condition("Conflict", "NoConflict")
        for kind, name in peer:
            assert (await management.get(kind, name) or {})["data"] == peer[kind, name]["data"]
        # a pass of the peer finds its own objects as it left them, and none of ours
        existing = [value for kind, name in await management.objects() if (value := await management.get(kind, name))]
        after = reconcile(existing, peer)
        assert all(after[item["kind"], item["metadata"]["name"]]["data"] == item["data"] for item in existing)
        # the peer is gone, and its name is ours again
        for kind, name in peer:
            await management.client.delete(SECRETS if kind == "Secret" else CONFIG_MAPS, name, management.org)
        await management.settings()
        await management.until_data("Secret", SYSTEMD, "containerdProxy", "192.168.52.220")
        await management.until_objects(*ALL)


async def test_what_is_somebody_elses_is_named_and_left_until_it_is_handed_over(management: Management) -> None:
    theirs = {"kind": "Secret", "metadata": {"name": SYSTEMD, "namespace": management.org}, "data": {"theirs": "aHVudGVyMg=="}}
    await management.put(theirs, "somebody")
    await management.cluster()
    await management.settings()
    async with management.operator():
        _, _, message = await management.until_condition("Conflict", "Conflict")
        assert f"Secret {management.org}/{SYSTEMD}" in message
        assert "transom adopt" in message
        assert await management.data("Secret", SYSTEMD) == {"theirs": "hunter2"}
        # settings removed: theirs stays
        await management.client.delete(EGRESS_PROXIES, "cluster")
        await management.until_objects(("Secret", SYSTEMD))
        await management.settings()
        await management.until_objects(*ALL)
        await management.merge("Secret", SYSTEMD, {"metadata": {"annotations": {"transom.dev/adopt": "true"}}}, management.org)
        # an edit has it looked at before its time
        await management.settings("hunter2 new")
        await management.until_data("Secret", SYSTEMD, "containerdProxy", "hunter2%%20new")
        await management.until_condition("Conflict", "NoConflict")
        assert (await management.data("Secret", SYSTEMD) or {})["theirs"] == "hunter2"


async def test_a_field_of_ours_is_put_back_and_one_of_theirs_is_kept(management: Management) -> None:
    async with with_all_objects(management) as operator:
        await management.merge("ConfigMap", VALUES, {"data": {"values": "mine", "extra": "kept"}}, management.org)
        await management.until_data("ConfigMap", VALUES, "values", RFC_LINE)
        assert (await management.data("ConfigMap", VALUES) or {})["extra"] == "kept"
        await management.merge("Secret", SYSTEMD, {"data": {"shell": "aHVudGVyMg==", "extra": "a2VwdA=="}}, management.org)
        # Secrets are not followed: at the next reading it is seen
        controller = operator.controllers["clusters"]
        key = ObjectKey(management.org, "mycluster")
        controller._verify_at[key] = 0.0  # type: ignore[attr-defined]
        controller.queue.add(key)
        await management.until_data("Secret", SYSTEMD, "shell", "HTTP_PROXY='")
        assert (await management.data("Secret", SYSTEMD) or {})["extra"] == "kept"


async def test_a_secret_that_somebody_deleted_comes_back_with_the_next_change(management: Management) -> None:
    async with with_all_objects(management):
        await management.client.delete(SECRETS, SYSTEMD, management.org)
        await management.settings("hunter2 new")
        await management.until_data("Secret", SYSTEMD, "containerdProxy", "hunter2%%20new")


async def test_a_machine_that_is_made_has_a_deleted_secret_put_back(management: Management) -> None:
    async with with_all_objects(management):
        await management.client.delete(SECRETS, SYSTEMD, management.org)
        metadata = {"name": "made", "namespace": management.org, "labels": {"cluster.x-k8s.io/cluster-name": "mycluster"}}
        await management.put(
            {"kind": "KubeadmConfigTemplate", "metadata": metadata, "spec": {"template": {"spec": {"format": "cloud-config"}}}}
        )
        await management.until_objects(*ALL)


async def test_invalid_settings_leave_every_cluster_what_it_has(management: Management) -> None:
    async with with_all_objects(management) as operator:
        since = management.control_plane.get_moment()
        await management.settings(noProxy="*.example.com")
        await management.until_condition("Valid", "Invalid")
        await management.cluster("late")
        await management.settled(operator)
        assert management.writes(since) == []
        assert (await management.until_condition("ClustersApplied", "KeepsLast"))[2].startswith("2 of 2 clusters keep")
    # and a start with them does not take anything away
    async with management.operator() as operator:
        await management.settled(operator)
        assert management.writes(since) == []


async def test_networks_and_endpoint_come_when_they_are_known(management: Management) -> None:
    bare = {"kind": "Cluster", "metadata": {"name": "mycluster", "namespace": management.org}}
    await management.put(bare | {"spec": {"paused": True}})
    await management.settings()
    async with management.operator():
        text = await management.until_data("ConfigMap", VALUES, "values", "noProxy: cluster.local,172.16.0.0/16")
        assert yaml.safe_load(text).keys() == {"cluster"}
        await management.cluster()
        await management.until_data("ConfigMap", VALUES, "values", f"noProxy: {RFC_LINE}\n")


async def test_two_clusters_with_one_id_a_label_that_is_no_name_and_a_layer_that_selects_nothing(
    management: Management,
) -> None:
    await management.cluster("old", labels={"giantswarm.io/cluster": "same"})
    await asyncio.sleep(1.1)  # times of creation have seconds
    await management.cluster("new", labels={"giantswarm.io/cluster": "same"}, host="10.9.9.9")
    await management.cluster("odd", labels={"giantswarm.io/cluster": "No_Name"})
    await management.settings()
    await management.put(egress_proxy("lonely", noProxy="x.example", clusterSelector={"matchLabels": {"env": "none"}}))
    async with management.operator():
        await management.until_data("ConfigMap", "same-cluster-values", "values", RFC_LINE)
        _, _, message = await management.until_condition("Conflict", "Conflict")
        assert (
            f"Cluster {management.org}/old and Cluster {management.org}/new have one id, same: the older, old, has" in message
        )
        assert f"Cluster {management.org}/odd: metadata.labels[giantswarm.io/cluster] must be" in message
        assert (await management.until_condition("ClustersApplied", "SelectsNothing", "lonely"))[0] == "False"
        # the younger inherits
        await management.client.delete(CLUSTERS, "old", management.org)
        await management.until_data("ConfigMap", "same-cluster-values", "values", "10.9.9.9")


async def test_apps_that_ask_get_references_and_keep_their_values_objects(management: Management) -> None:
    labels = {"giantswarm.io/cluster": "mycluster", "transom.dev/inject": "true"}

    def app(name: str, labels: dict[str, str], **config: object) -> dict[str, object]:
        spec = {"catalog": "default", "config": config} if config else {"catalog": "default"}
        return {"kind": "App", "metadata": {"name": name, "namespace": management.org, "labels": labels}, "spec": spec}

    reference = {"name": VALUES, "namespace": management.org}
    own = {"name": "own", "namespace": management.org}
    await management.put(app("empty", labels))
    await management.put(app("half", labels, configMap=own))
    await management.put(app("silent", {"giantswarm.io/cluster": "mycluster"}))
    await management.cluster()
    await management.settings()

    async def config(name: str) -> dict[str, object] | None:
        held = await management.get("App", name)
        assert held is not None
        found: dict[str, object] | None = held["spec"].get("config")
        return found

    async with management.operator() as operator:

        async def injected() -> bool:
            half = await config("half")
            return await config("empty") == {"configMap": reference, "secret": reference} and half == {
                "configMap": own,
                "secret": reference,
            }

        await management.until(injected)
        assert await config("silent") is None

        async def told() -> bool:
            message = (await management.conditions()).get("ClustersApplied", ("", "", ""))[2]
            return f"App {management.org}/half (configMap): has values of its own" in message

        await management.until(told)
        await management.settled(operator)
        # settings gone: who reads the values finds them without a proxy
        await management.client.delete(EGRESS_PROXIES, "cluster")
        await management.until_objects(("ConfigMap", VALUES), ("Secret", VALUES))
        assert await management.data("Secret", VALUES) == {"values": "{}\n"}

        # the ConfigMap, which names the Secrets, is written last
        async def without_proxy() -> bool:
            return "proxy" not in str(await management.data("ConfigMap", VALUES))

        await management.until(without_proxy)
        # nobody asks any more: the references go, and then the objects
        for name in ("empty", "half"):
            await management.merge("App", name, {"metadata": {"labels": {"transom.dev/inject": None}}}, management.org)
        await management.until_objects()
        assert await config("half") == {"configMap": own}


async def test_releases_that_ask_list_the_values_and_keep_their_objects(management: Management) -> None:
    labels = {"giantswarm.io/cluster": "mycluster", "transom.dev/inject": "true"}
    listed = [{"kind": kind, "name": VALUES, "valuesKey": "values"} for kind in ("ConfigMap", "Secret")]
    own = [{"kind": "ConfigMap", "name": "own"}]
    await management.put(release("empty", management.org, labels))
    await management.put(release("own", management.org, labels, valuesFrom=own))
    await management.put(release("by-hand", management.org, {}, valuesFrom=[listed[0]]))
    await management.put(release("mycluster-by-name", management.org, {"transom.dev/inject": "true"}))
    await management.cluster()
    await management.cluster("another")
    await management.settings()

    async def values(name: str) -> object:
        held = await management.get("HelmRelease", name)
        assert held is not None
        return held["spec"].get("valuesFrom")

    async with management.operator() as operator:

        async def injected() -> bool:
            return await values("empty") == listed and await values("mycluster-by-name") == listed

        await management.until(injected)
        await management.settled(operator)
        assert (await values("own"), await values("by-hand")) == (own, [listed[0]])
        told = f"HelmRelease {management.org}/own (valuesFrom): has values of its own there, and gets no reference"

        async def is_told() -> bool:
            return told in (await management.conditions()).get("ClustersApplied", ("", "", ""))[2]

        async def is_content() -> bool:
            return not await is_told()

        await management.until(is_told)
        # its owner puts ours before what was there
        await management.put(release("own", management.org, labels, valuesFrom=[*listed, *own]))
        await management.until(is_content)
        # Flux finds what it is to read also without settings: a release whose values are not there fails
        await management.client.delete(EGRESS_PROXIES, "cluster")
        await management.until_objects(("ConfigMap", VALUES), ("Secret", VALUES))
        assert await management.data("Secret", VALUES) == {"values": "{}\n"}
        # somebody lists values of their own: from then on the list is theirs
        await management.put(release("empty", management.org, labels, valuesFrom=own), "kustomize-controller")
        since = management.control_plane.get_moment()
        await management.settings()
        await management.until_data("Secret", VALUES, "values", "192.168.52.220")
        await management.settled(operator)
        assert await values("empty") == own
        assert [write for write in management.writes(since) if write[1] == "helmreleases"] == []
        await management.merge(
            "HelmRelease", "mycluster-by-name", {"metadata": {"labels": {"transom.dev/inject": None}}}, management.org
        )

        async def taken_out() -> bool:
            return await values("mycluster-by-name") is None

        await management.until(taken_out)
        await management.client.delete(EGRESS_PROXIES, "cluster")
        await management.until_data("Secret", VALUES, "values", "{}")
        for name in ("by-hand", "own"):
            await management.client.delete(RELEASES, name, management.org)
        await management.until_objects()


async def test_an_app_that_names_no_cluster_belongs_to_the_one_its_name_begins_with(management: Management) -> None:
    for name in ("prod", "prod-two"):
        await management.cluster(name)
    labels = {"transom.dev/inject": "true"}
    for name in ("prod-cert-manager", "prod-two-cert-manager", "elsewhere"):
        metadata = {"name": name, "namespace": management.org, "labels": labels}
        await management.put({"kind": "App", "metadata": metadata, "spec": {"catalog": "default"}})
    await management.settings()

    async def values() -> list[str | None]:
        found = [await management.get("App", name) for name in ("prod-cert-manager", "prod-two-cert-manager", "elsewhere")]
        configs = [item["spec"].get("config") if item else None for item in found]
        return [config["secret"]["name"] if config else None for config in configs]

    async with management.operator() as operator:
        await management.until_condition("ClustersApplied", "Applied")
        await management.settled(operator)
        assert await values() == ["prod-cluster-values", "prod-two-cluster-values", None]


async def test_a_cluster_on_its_way_out_is_left_alone(management: Management) -> None:
    await management.cluster(finalizers=["test.transom.dev/hold"])
    await management.settings()
    async with management.operator() as operator:
        await management.until_objects(*ALL)
        await management.client.delete(CLUSTERS, "mycluster", management.org)
        await management.settled(operator)
        since = management.control_plane.get_moment()
        await management.settings(httpProxy=PROXY.replace("3128", "3129"))
        await management.settled(operator)
        assert management.writes(since) == []
        await management.merge("Cluster", "mycluster", {"metadata": {"finalizers": None}}, management.org)
        await management.until_objects()


async def test_what_a_template_still_names_is_emptied_first_and_goes_when_nothing_names_it(management: Management) -> None:
    def template(name: str, secret: str, key: str, socket: str) -> dict[str, object]:
        file = {"path": "/x", "contentFrom": {"secret": {"name": secret, "key": key}}}
        spec = {"files": [file], "joinConfiguration": {"nodeRegistration": {"criSocket": socket}}}
        labels = {"cluster.x-k8s.io/cluster-name": "mycluster"}
        metadata = {"name": name, "namespace": management.org, "labels": labels}
        return {"kind": "KubeadmConfigTemplate", "metadata": metadata, "spec": {"template": {"spec": spec}}}

    windows = ("Secret", "mycluster-windows-proxy")
    linux_template = template("linux", SYSTEMD, "containerdProxy", "unix:///run/containerd/containerd.sock")
    await management.put(linux_template)
    await management.put(template("windows", windows[1], "proxyReg", "npipe:////./pipe/containerd-containerd"))
    await management.cluster()
    await management.settings()
    async with management.operator() as operator:
        await management.until_objects(*ALL, windows)
        await management.settled(operator)
        await management.client.delete(EGRESS_PROXIES, "cluster")
        await management.until_objects(("ConfigMap", VALUES), ("Secret", SYSTEMD), windows)
        assert await management.data("Secret", SYSTEMD) == {"containerdProxy": "[Service]\n", "env": "", "shell": ""}
        for name in ("linux", "windows"):
            await management.client.delete(TEMPLATES, name, management.org)
        await management.until_objects()


async def test_many_clusters_are_one_status_and_not_an_event_each(management: Management) -> None:
    for number in range(30):
        await management.cluster(f"c{number:02}")
    await management.settings()
    since = management.control_plane.get_moment()
    async with management.operator() as operator:
        _, _, message = await management.until_condition("ClustersApplied", "Applied")
        assert message == "30 clusters have the settings"
        await management.settled(operator)
        assert len(management.writes(since)) == 90
    references = [item.get("objectRef") or {} for item in management.control_plane.read_audit(since) if item["verb"] != "watch"]
    assert len([reference for reference in references if reference.get("resource") == "events"]) <= 1
    assert len([reference for reference in references if reference.get("subresource") == "status"]) <= 4


async def test_clusters_that_go_while_they_are_written_to_leave_nothing(management: Management) -> None:
    await management.settings()
    async with management.operator() as operator:
        for number in range(12):
            await management.cluster(f"c{number:02}")
            await asyncio.sleep(0.05 * (number % 6))
            await management.client.delete(CLUSTERS, f"c{number:02}", management.org)
        await management.settled(operator)
        await management.until_objects()
        assert operator.controllers["clusters"].queue.working == 0
