"""What an EgressProxy says of itself, and the ConfigMaps that ask for its trust bundle."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from lab.control_plane import ControlPlane
from tests.support.operator.bundles import ROOT_1, ROOT_2
from tests.support.operator.clusters import PASSWORD, PROXY, WHOLE_EVENTS, Cluster, environment
from tests.support.waiting import PATIENCE
from tests.support.waiting import until as wait_until

from lab import openshift
from transom.controllers.runtime import current_settings
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES
from transom.kube.store import MalformedObject, Store
from transom.operations.metrics import OperatorMetrics
from transom.proxy.trust import SYSTEM_CA_FILE, format_pem, parse_bundle
from winsim import Host

pytestmark = pytest.mark.lab
LABEL = "transom.dev/inject-trusted-cabundle"
OPENSHIFT_LABEL = "config.openshift.io/inject-trusted-cabundle"


async def status(cluster: Cluster, name: str = "cluster") -> dict[str, Any]:
    found: dict[str, Any] = (await cluster.client.get(EGRESS_PROXIES, name)).value.get("status") or {}
    return found


async def conditions(cluster: Cluster, name: str = "cluster") -> dict[str, tuple[str, str, str]]:
    found = (await status(cluster, name)).get("conditions", ())
    return {item["type"]: (item["status"], item["reason"], item["message"]) for item in found}


async def until(cluster: Cluster, name: str = "cluster", **wanted: str) -> dict[str, tuple[str, str, str]]:
    """Wait until conditions have these reasons for the newest generation."""
    found: dict[str, tuple[str, str, str]] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                held = (await cluster.client.get(EGRESS_PROXIES, name)).value
                found = await conditions(cluster, name)
                observed = (held.get("status") or {}).get("observedGeneration") == held["metadata"]["generation"]
                if observed and all(found.get(type_, ("", "", ""))[1] == reason for type_, reason in wanted.items()):
                    return found
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"wanted {wanted}, found {found}") from None


async def events(cluster: Cluster, name: str = "cluster") -> list[tuple[str, str]]:
    found = await cluster.client.list_objects(WHOLE_EVENTS, "default")
    uid = (await cluster.client.get(EGRESS_PROXIES, name)).metadata.uid
    values = [item.value for item in found.items if item.value["involvedObject"].get("uid") == uid]
    return [(value["reason"], value["message"]) for value in values]


async def data(cluster: Cluster, name: str) -> dict[str, str]:
    return (await cluster.client.get(CONFIG_MAPS, name, cluster.namespace)).value.get("data") or {}


async def until_data(cluster: Cluster, name: str, wanted: dict[str, str]) -> None:
    found: dict[str, str] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            while (found := await data(cluster, name)) != wanted:
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{name}: wanted {sorted(wanted)}, found {sorted(found)}") from None


async def ask(cluster: Cluster, name: str, label: str = LABEL, value: str = "true", **others: str) -> None:
    path = CONFIG_MAPS.build_path(cluster.namespace, name)
    metadata = {"name": name, "namespace": cluster.namespace, "labels": {label: value}}
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": others}
    query = {"fieldManager": "somebody", "force": "true"}
    await cluster.client.request("PATCH", path, query, whole, content_type="application/apply-patch+yaml")


def with_system_cas(*roots: str) -> set[str]:
    system = parse_bundle(Path(SYSTEM_CA_FILE).read_text()).certificates
    return {item.sha256 for item in system} | {
        certificate.sha256 for root in roots for certificate in parse_bundle(root).certificates
    }


async def test_the_status_shows_what_holds_and_no_password(cluster: Cluster, control_plane: ControlPlane) -> None:
    await cluster.bundle(ROOT_1 + ROOT_2)
    url = "http://user:hunter2%25%5E&!x@proxy.corp.example:3128"
    await cluster.proxy(httpProxy=url, httpsProxy=url, noProxy="b.example, a.example", trustedCA={"name": "corp-ca"})
    async with cluster.operator(controllers=("egress",)) as operator:
        found = await until(
            cluster, Valid="Valid", TrustBundleValid="Valid", EndpointsAnswer="NotConfigured", Superseded="NotSuperseded"
        )
        metrics = OperatorMetrics()
        metrics.register_operator(operator)
        for certificate in parse_bundle(ROOT_1 + ROOT_2).certificates:
            expiry = "transom_trust_certificate_expiry_timestamp_seconds", {"sha256": certificate.sha256}
            assert metrics.registry.get_sample_value(*expiry) == certificate.not_after.timestamp()
        assert metrics.registry.get_sample_value("transom_settings_valid") == 1
        assert found["Valid"][0] == "True"
        shown = await status(cluster)
        assert shown["httpProxy"] == shown["httpsProxy"] == "http://***@proxy.corp.example:3128"
        assert {"a.example", "b.example", ".svc", "localhost"} <= set(shown["noProxy"].split(","))
        assert shown["trustBundle"]["certificates"] == 2
        assert len(shown["trustBundle"]["sha256"]) == 64
        assert shown["trustBundle"]["earliestExpiry"].endswith("Z")
        version = (await cluster.client.get(EGRESS_PROXIES, "cluster")).metadata.resource_version
        await cluster.proxy()
        await until(cluster, TrustBundleValid="NotConfigured")
        shown = await status(cluster)
        assert not shown.keys() & {"httpProxy", "httpsProxy", "noProxy", "trustBundle"}
        assert (await cluster.client.get(EGRESS_PROXIES, "cluster")).metadata.resource_version != version
    table = await asyncio.to_thread(control_plane.run_kubectl, "get", "epx", "cluster")
    assert table.splitlines()[1].split()[1:5] == ["True", "Ready", "0", "0"]
    everything = str([item.value for item in (await cluster.client.list_objects(WHOLE_EVENTS, "default")).items])
    assert PASSWORD not in everything + table + str(shown)


async def test_an_invalid_edit_is_told_once_and_what_held_goes_on_to_hold(cluster: Cluster) -> None:
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    metrics = OperatorMetrics()
    async with cluster.operator(controllers=("egress",)) as operator:
        metrics.register_operator(operator)
        await until(cluster, Valid="Valid")
        held = await status(cluster)
        await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, noProxy="*.example.com", trustedCA={"name": "nobody-made-it"})
        found = await until(cluster, Valid="Invalid", TrustBundleValid="Invalid")
        assert found["Valid"][2].startswith("spec.")
        assert "spec.noProxy: " in found["Valid"][2]
        assert metrics.registry.get_sample_value("transom_settings_valid") == 0
        assert "spec.trustedCA.name: no ConfigMap" in found["TrustBundleValid"][2]
        shown = await status(cluster)
        assert [shown[field] for field in ("httpProxy", "noProxy")] == [held[field] for field in ("httpProxy", "noProxy")]
        # edits of others compute everything anew, and say nothing new
        for number in range(3):
            await cluster.bundle(ROOT_1, f"other-{number}")
            await asyncio.sleep(0.4)
        told = [event for event in await events(cluster) if event[0] == "InvalidSettings"]
        assert len(told) == 1
        assert told[0][1] == found["Valid"][2]
        await cluster.bundle("no certificate", "nobody-made-it")
        found = await until(cluster, Valid="Invalid", TrustBundleValid="Invalid")
        await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
        await until(cluster, Valid="Valid", TrustBundleValid="NotConfigured")
        await asyncio.sleep(0.2)
        assert [reason for reason, _ in await events(cluster)].count("Valid") == 1


async def test_a_certificate_that_expires_is_warned_of_when_its_time_comes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing changes in the cluster; the settings hold all the same."""
    monkeypatch.setattr(current_settings, "REVIEW", 0.3)
    (root,) = parse_bundle(ROOT_1).certificates
    time = [root.not_after - timedelta(days=40)]
    await cluster.bundle(ROOT_1)
    await cluster.proxy(trustedCA={"name": "corp-ca"})
    async with cluster.operator(controllers=("egress",), now=lambda: time[0]):
        assert (await until(cluster, Valid="Valid"))["Valid"][2] == "the settings are valid"
        for days, word in ((20, "expires on"), (-1, "expired on")):
            time[0] = root.not_after - timedelta(days=days)
            async with asyncio.timeout(PATIENCE):
                while word not in (told := (await conditions(cluster))["Valid"])[2]:
                    await asyncio.sleep(0.05)
            assert told[0] == "True"
            assert "warning: data[ca-bundle.crt] of ConfigMap" in told[2]


async def test_nothing_is_written_where_nothing_changed(cluster: Cluster, control_plane: ControlPlane) -> None:
    await cluster.bundle(ROOT_1)
    await ask(cluster, "asks")
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, trustedCA={"name": "corp-ca"})

    def writes() -> list[str]:
        uris = [
            entry["requestURI"].split("?")[0] for entry in control_plane.read_audit(cluster.began) if entry["verb"] == "patch"
        ]
        return [uri for uri in uris if uri.endswith(("/egressproxies/cluster/status", f"{cluster.namespace}/configmaps/asks"))]

    before = len(writes())
    for expected in (2, 0):
        async with cluster.operator(controllers=("egress",)):
            await until(cluster, Valid="Valid")
            await wait_until(lambda expected=expected, before=before: len(writes()) - before >= expected)
            await asyncio.sleep(1)
        assert len(writes()) - before == expected
        before = len(writes())


async def test_a_status_is_written_once_however_late_it_is_heard_of(
    cluster: Cluster, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch on busy cores: the key comes up again before what was written came back; what is new then is written."""
    put = Store.put

    def not_yet(self: Store[Any], obj: Any, malformed: MalformedObject | None = None) -> None:
        if not (
            isinstance(obj, UnstructuredObject) and obj.value.get("kind") == EGRESS_PROXIES.kind and obj.value.get("status")
        ):
            put(self, obj, malformed)

    monkeypatch.setattr(Store, "put", not_yet)

    def writes(name: str = "cluster") -> int:
        told = [entry for entry in control_plane.read_audit(cluster.began) if entry["verb"] == "patch"]
        return sum(entry["requestURI"].split("?")[0].endswith(f"/egressproxies/{name}/status") for entry in told)

    await cluster.bundle(ROOT_1)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, trustedCA={"name": "corp-ca"})
    async with cluster.operator(controllers=("egress",)):
        await wait_until(writes)
        for number in range(3):
            # which says nothing of its own: all statuses are looked at
            await cluster.put(EGRESS_PROXIES, f"layer-{number}", spec={})
            await wait_until(lambda number=number: writes(f"layer-{number}"))
        await asyncio.sleep(1)
        assert writes() == 1
        await cluster.bundle(ROOT_2)
        await wait_until(lambda: writes() == 2)
        await asyncio.sleep(1)
        assert writes() == 2

        async def changes() -> int:
            return [reason for reason, _ in await events(cluster)].count("Changed")

        async def both_told() -> bool:
            return await changes() >= 2

        await wait_until(both_told)
        assert await changes() == 2


async def test_config_maps_get_the_bundle_and_keep_their_own_keys(cluster: Cluster) -> None:
    await cluster.bundle(ROOT_1)
    await cluster.proxy(trustedCA={"name": "corp-ca"})
    await ask(cluster, "whole", theirs="1")
    await ask(cluster, "alone", value="bundle-only")
    await ask(cluster, "openshift", OPENSHIFT_LABEL)
    await ask(cluster, "no", value="false", theirs="1")
    only = {"ca-bundle.crt": parsed(ROOT_1)}
    async with cluster.operator(controllers=("egress",)):
        await until_data(cluster, "alone", only)
        for name in ("whole", "openshift"):
            await until_keys(cluster, name, "ca-bundle.crt")
            text = (await data(cluster, name))["ca-bundle.crt"]
            assert {certificate.sha256 for certificate in parse_bundle(text).certificates} == with_system_cas(ROOT_1)
        assert (await data(cluster, "whole"))["theirs"] == "1"
        # rotated
        await cluster.bundle(ROOT_2)
        await until_data(cluster, "alone", {"ca-bundle.crt": parsed(ROOT_2)})
        # somebody else's edit is put right
        await cluster.merge(CONFIG_MAPS, "alone", {"data": {"ca-bundle.crt": "edited"}})
        await until_data(cluster, "alone", {"ca-bundle.crt": parsed(ROOT_2)})
        # the label goes, and comes back
        await cluster.merge(CONFIG_MAPS, "whole", {"metadata": {"labels": {LABEL: None}}})
        await until_data(cluster, "whole", {"theirs": "1"})
        await cluster.merge(CONFIG_MAPS, "whole", {"metadata": {"labels": {LABEL: "bundle-only"}}})
        await until_data(cluster, "whole", {"theirs": "1", "ca-bundle.crt": parsed(ROOT_2)})
        # an invalid bundle changes nothing
        await cluster.bundle("-----BEGIN CERTIFICATE-----\n")
        await until(cluster, TrustBundleValid="Invalid")
        assert await data(cluster, "alone") == {"ca-bundle.crt": parsed(ROOT_2)}
        # no bundle at all
        await cluster.proxy()
        for name in ("alone", "openshift"):
            await until_data(cluster, name, {})
        await until_data(cluster, "whole", {"theirs": "1"})
        assert await data(cluster, "no") == {"theirs": "1"}


async def test_a_label_that_went_while_nobody_looked_is_noticed(cluster: Cluster) -> None:
    await cluster.bundle(ROOT_1)
    await cluster.proxy(trustedCA={"name": "corp-ca"})
    await ask(cluster, "asks", value="bundle-only", theirs="1")
    async with cluster.operator(controllers=("egress",)):
        await until_data(cluster, "asks", {"theirs": "1", "ca-bundle.crt": parsed(ROOT_1)})
    await cluster.merge(CONFIG_MAPS, "asks", {"metadata": {"labels": {LABEL: None}}})
    async with cluster.operator(controllers=("egress",)):
        await until_data(cluster, "asks", {"theirs": "1"})


async def test_a_config_map_that_is_deleted_stays_deleted(cluster: Cluster, control_plane: ControlPlane) -> None:
    await cluster.bundle(ROOT_1)
    await cluster.proxy(trustedCA={"name": "corp-ca"})
    await ask(cluster, "asks", value="bundle-only")
    async with cluster.operator(controllers=("egress",)):
        await until_keys(cluster, "asks", "ca-bundle.crt")
        await cluster.delete(CONFIG_MAPS, "asks")
        await cluster.bundle(ROOT_2)
        await asyncio.sleep(1)
    found = await asyncio.to_thread(control_plane.run_kubectl, "get", "configmap", "-n", cluster.namespace, "-o", "name")
    assert "configmap/asks" not in found


async def test_endpoints_are_tried_through_the_proxy(cluster: Cluster) -> None:
    asked: list[bytes] = []
    answer = [b"HTTP/1.1 502 Bad Gateway\r\n\r\n"]

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        writer.write(answer[0])
        writer.close()

    listener = await asyncio.start_server(proxy, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    await cluster.proxy(httpProxy=url, readinessEndpoints=["http://registry.example/v2/"], readinessPolicy="Report")
    async with cluster.operator(controllers=("egress",)):
        found = await until(cluster, EndpointsAnswer="EndpointFailed")
        assert found["EndpointsAnswer"][0] == "False"
        assert found["EndpointsAnswer"][2].startswith("spec.readinessEndpoints[0]: http://registry.example")
        assert len(asked) == 3
        assert set(asked) == {b"GET http://registry.example/v2/ HTTP/1.1"}
        answer[0] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        await cluster.proxy(
            httpProxy=url, noProxy="x.example", readinessEndpoints=["http://registry.example/v2/"], readinessPolicy="Report"
        )
        await until(cluster, EndpointsAnswer="EndpointsAnswer")
    listener.close()


async def test_a_change_waits_until_its_endpoints_answer(cluster: Cluster) -> None:
    """Held back like an invalid edit: no host is told, the status says why; taken up by itself when they answer."""
    good = [True]

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" if good[0] else b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(proxy, "127.0.0.1", 0)
    works = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    endpoints = {"readinessEndpoints": ["http://registry.example/v2/"]}
    host = await cluster.simulator.add_host()
    host.fetch = lambda _: 0
    await cluster.proxy(httpProxy=works, **endpoints)
    await cluster.instance("win-1", host)
    async with cluster.operator() as operator:
        await cluster.until("win-1", ProxyApplied="True/Applied")
        await until(cluster, EndpointsAnswer="EndpointsAnswer")
        operator.settings.gate._again = 0.2
        registry, connections = list(host.registry), host.traffic.connections
        await cluster.proxy(httpProxy="http://127.0.0.1:1", **endpoints)
        found = await until(cluster, Valid="Valid", EndpointsAnswer="EndpointFailed")
        assert "the proxy cannot be reached; the change is held back" in found["EndpointsAnswer"][2]
        assert (await status(cluster))["httpProxy"] == works
        # other edits do not let it slip through
        await cluster.bundle(ROOT_1)
        await asyncio.sleep(0.5)
        assert operator.settings.own is not None
        assert operator.settings.own.http_proxy is not None
        assert operator.settings.own.http_proxy.reveal() == works
        assert (list(host.registry), host.traffic.connections) == (registry, connections)
        # it is taken up by itself when the endpoint answers
        good[0] = False
        await cluster.proxy(httpProxy=works, noProxy="x.example", trustedCA={"name": "corp-ca"}, **endpoints)
        await until(cluster, EndpointsAnswer="EndpointFailed", TrustBundleValid="Valid")
        assert list(host.registry) == registry
        good[0] = True
        await until(cluster, EndpointsAnswer="EndpointsAnswer")
        await cluster.until("win-1", TrustApplied="True/Applied")
        # Report only says so
        await cluster.proxy(httpProxy="http://127.0.0.1:1", readinessPolicy="Report", **endpoints)
        await until_proxy(host, "http://127.0.0.1:1")
        await until(cluster, EndpointsAnswer="EndpointFailed")
    listener.close()


async def until_proxy(host: Host, url: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while f"HTTP_PROXY={url}" not in environment(host, "containerd"):
            await asyncio.sleep(0.05)


async def test_openshifts_proxy_is_the_base_as_soon_as_there_is_one(cluster: Cluster, control_plane: ControlPlane) -> None:
    """The kind comes while the operator runs; OpenShift's label is left to OpenShift then."""
    await cluster.bundle(ROOT_1)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, trustedCA={"name": "corp-ca"})
    await ask(cluster, "openshift", OPENSHIFT_LABEL, theirs="1")
    proxy = {"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}}
    url = "http://user:hunter2@openshift.corp.example:3128"
    status_of_proxy = json.dumps({"status": {"httpProxy": url, "noProxy": ".svc"}})
    patch = ("patch", "proxy", "cluster", "--type=merge", "--subresource=status", "-p", status_of_proxy)
    async with cluster.operator(controllers=("egress",)) as operator:
        await until(cluster, Superseded="NotSuperseded")
        await until_keys(cluster, "openshift", "ca-bundle.crt")
        try:
            await asyncio.to_thread(openshift.define, control_plane, (openshift.PROXIES,))
            await asyncio.to_thread(control_plane.apply, [proxy | {"spec": {"httpProxy": url}}])
            await asyncio.to_thread(control_plane.run_kubectl, *patch)
            found = await until(cluster, Superseded="OpenShiftProxy")
            assert found["Superseded"][0] == "True"
            own = operator.settings.own
            assert own is not None
            assert own.http_proxy is not None
            assert own.http_proxy.reveal() == url
            assert not (await status(cluster)).keys() & {"httpProxy", "httpsProxy", "noProxy", "trustBundle"}
            await until_data(cluster, "openshift", {"theirs": "1"})
            await an_invalid_proxy_of_openshift_is_told(cluster, control_plane, proxy, url)
            assert operator.settings.own.http_proxy == own.http_proxy
        finally:
            await asyncio.to_thread(openshift.forget, control_plane, (openshift.PROXIES,))
        await until(cluster, Superseded="NotSuperseded")
        await until_keys(cluster, "openshift", "ca-bundle.crt")
    assert [reason for reason, _ in await events(cluster)].count("OpenShiftProxy") == 1


async def an_invalid_proxy_of_openshift_is_told(
    cluster: Cluster, control_plane: ControlPlane, proxy: dict[str, Any], url: str
) -> None:
    """By conditions of EgressProxy/cluster and by events on the Proxy itself, which nothing else is written on."""
    managed = {"name": "trusted-ca-bundle", "namespace": "openshift-config-managed"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": managed["namespace"]}}
    spec = {"httpProxy": url, "trustedCA": {"name": managed["name"]}, "noProxy": "*.example.com"}
    await asyncio.to_thread(control_plane.apply, [namespace, proxy | {"spec": spec}])
    found = await until(cluster, Valid="Invalid", TrustBundleValid="Invalid")
    missing = "spec.trustedCA.name of Proxy/cluster: no ConfigMap openshift-config-managed/trusted-ca-bundle exists"
    assert found["TrustBundleValid"][2].startswith(missing)
    bundle = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": managed, "data": {"ca-bundle.crt": ROOT_1}}
    await asyncio.to_thread(control_plane.apply, [bundle, proxy | {"spec": spec}])
    # its status holds, as its own operator wrote it
    found = await until(cluster, Valid="Valid", TrustBundleValid="Valid")
    assert "spec.noProxy of Proxy/cluster: item 1 `*.example.com`" in found["Valid"][2]
    told: list[tuple[str, str]] = []
    async with asyncio.timeout(PATIENCE):
        while "Valid" not in dict(told):
            told = await of_proxy(cluster)
            await asyncio.sleep(0.1)
    wrong = [message for reason, message in told if reason == "InvalidSettings"]
    assert any("spec.trustedCA.name: " in item and item.endswith("the last valid settings apply") for item in wrong)
    endpoints = json.dumps({"spec": {"readinessEndpoints": ["http://registry.example/"]}})
    await asyncio.to_thread(control_plane.run_kubectl, "patch", "proxy", "cluster", "--type=merge", "-p", endpoints)
    status_of_proxy = ("--subresource=status", "-p", json.dumps({"status": {"httpProxy": "http://127.0.0.1:1"}}))
    await asyncio.to_thread(control_plane.run_kubectl, "patch", "proxy", "cluster", "--type=merge", *status_of_proxy)
    async with asyncio.timeout(PATIENCE):
        while "held back until they answer" not in dict(told).get("EndpointFailed", ""):
            told = await of_proxy(cluster)
            await asyncio.sleep(0.1)
    assert "hunter2" not in str(told) + str(found)


async def of_proxy(cluster: Cluster) -> list[tuple[str, str]]:
    """Events on OpenShift's Proxy."""
    found = await cluster.client.list_objects(WHOLE_EVENTS, "default")
    values = [item.value for item in found.items if item.value["involvedObject"].get("kind") == "Proxy"]
    assert all(value["involvedObject"].get("uid") for value in values)
    return [(value["reason"], value["message"]) for value in values]


async def test_a_layer_has_a_status_of_its_own(cluster: Cluster) -> None:
    await cluster.put(EGRESS_PROXIES, "layer", spec={"noProxy": "mesh.example"})
    async with cluster.operator(controllers=("egress",)):
        found = await until(cluster, "layer", Valid="Invalid", Ready="Invalid")
        assert found["Valid"][2].startswith("metadata.name: no EgressProxy is named `cluster`")
        await cluster.proxy()
        found = await until(cluster, "layer", Valid="Valid", Ready="Valid")
        assert set(found) == {"Ready", "Valid", "TrustBundleValid"}
        await cluster.put(EGRESS_PROXIES, "layer", spec={"noProxy": "mesh.example:80"})
        found = await until(cluster, "layer", Valid="Invalid")
        assert found["Valid"][2].startswith("spec.noProxy: ")
    await cluster.delete(EGRESS_PROXIES, "layer")


def parsed(pem_text: str) -> str:
    return format_pem(parse_bundle(pem_text).certificates)


async def until_keys(cluster: Cluster, name: str, key: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while key not in await data(cluster, name):
            await asyncio.sleep(0.05)


async def test_a_key_that_somebody_else_writes_again_and_again_is_left_to_them(cluster: Cluster) -> None:
    """No loop of two writers: a condition and one event say who has to give way, and without the label all is well again."""
    await cluster.bundle(ROOT_1)
    await cluster.proxy(httpProxy=PROXY, trustedCA={"name": "corp-ca"})
    await ask(cluster, "fought", LABEL)
    path = CONFIG_MAPS.build_path(cluster.namespace, "fought")
    theirs = {"data": {"ca-bundle.crt": "theirs"}}
    async with cluster.operator(controllers=("egress",)):
        lost = 0
        async with asyncio.timeout(PATIENCE):
            while (await conditions(cluster)).get("Conflict", ("", "", ""))[0] != "True":
                if (await data(cluster, "fought")).get("ca-bundle.crt") not in ("theirs", None):
                    lost += 1
                    await cluster.client.request("PATCH", path, None, theirs, content_type="application/merge-patch+json")
                await asyncio.sleep(0.02)
        assert lost == 3
        assert f"ConfigMap {cluster.namespace}/fought" in (await conditions(cluster))["Conflict"][2]
        await asyncio.sleep(0.5)
        assert (await data(cluster, "fought"))["ca-bundle.crt"] == "theirs"
        await cluster.merge(CONFIG_MAPS, "fought", {"metadata": {"labels": {LABEL: None}}})
        await until(cluster, Conflict="NoConflict")
        await cluster.merge(CONFIG_MAPS, "fought", {"metadata": {"labels": {LABEL: "true"}}})
        async with asyncio.timeout(PATIENCE):
            while (await data(cluster, "fought"))["ca-bundle.crt"] == "theirs":
                await asyncio.sleep(0.05)
    assert [reason for reason, _ in await events(cluster)].count("Conflict") == 1
