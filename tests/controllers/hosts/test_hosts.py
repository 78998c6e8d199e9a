"""From objects in a real API server to hosts behind real SSH servers, and back into their status."""

import asyncio
import base64
import hashlib
import hmac
from types import SimpleNamespace
from typing import cast
from urllib.parse import quote

import pytest
from tests.support.operator.bundles import ISSUING, ROOT_1, ROOT_2, SHA1_1, SHA1_2, roots
from tests.support.operator.clusters import PASSWORD, PROXY, Cluster, environment, fingerprint
from tests.support.operator.stories import changes
from tests.support.waiting import until

from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.hash_key import HashKey
from transom.controllers.runtime.informers import Informers
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, NODES, SECRETS, WINDOWS_INSTANCES
from transom.kube.store import Store
from transom.windows.host.queries import LEDGER

pytestmark = pytest.mark.lab
OTHER = "http://other.corp.example:3128"


async def test_follows_what_people_write(cluster: Cluster) -> None:
    """Install, edit, rotate, empty: the host has it each time, and status and events say so."""
    host = await cluster.simulator.add_host()
    before = host.registry
    await cluster.bundle(ROOT_1 + ISSUING)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, noProxy="example.com", trustedCA={"name": "corp-ca"})
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until(
            "win-1", Reachable="True", Configured="True", ProxyApplied="True/Applied", TrustApplied="True/Applied"
        )
        assert f"HTTPS_PROXY={PROXY}" in environment(host, "containerd")
        assert SHA1_1 in roots(host)
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER, trustedCA={"name": "corp-ca"})
        await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet"))
        await cluster.bundle(ROOT_2)
        await until(lambda: SHA1_2 in roots(host) and SHA1_1 not in roots(host))
        await cluster.proxy()
        await cluster.until("win-1", ProxyApplied="True/NotConfigured", TrustApplied="True/NotConfigured")
        assert list(host.registry) == list(before)
    # changes that all hosts get are told of the EgressProxy, and in the host's condition
    assert [reason for type_, reason, _ in await cluster.events("win-1") if type_ == "Normal"] == ["Applied"]
    status = await cluster.status("win-1")
    told = next(condition["message"] for condition in status["conditions"] if condition["type"] == "Configured")
    assert "removed HTTP_PROXY, HTTPS_PROXY, NO_PROXY of containerd" in told
    assert status["hostKeyFingerprint"] == fingerprint(cluster, host)
    assert status["lastChecked"]
    assert status["hostAddress"] == host.address
    assert "nodeName" not in status
    assert {condition["observedGeneration"] for condition in status["conditions"]} == {1}
    table = await asyncio.to_thread(cluster.control_plane.run_kubectl, "get", "windowsinstances", "-n", cluster.namespace)
    assert table.split()[:5] == ["NAME", "ADDRESS", "READY", "REASON", "PROXYAPPLIED"]


async def test_an_invalid_edit_reaches_no_host(cluster: Cluster) -> None:
    """Neither the edit nor what else is changed while it stands; the last valid settings hold, for new hosts too."""
    host, late = await cluster.simulator.add_host(), await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    async with cluster.operator() as operator:
        await cluster.until("win-1", ProxyApplied="True/Applied")
        registry, connections = list(host.registry), host.traffic.connections
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER, trustedCA={"name": "nobody-made-it"})
        await until(lambda: not operator.settings.valid)
        await cluster.instance("win-2", late)
        await cluster.until("win-2", ProxyApplied="True/Applied")
        assert f"HTTPS_PROXY={PROXY}" in environment(late, "containerd")
        assert (list(host.registry), host.traffic.connections) == (registry, connections)
        assert await cluster.conditions("win-1") == await cluster.conditions("win-2")
        newest = operator.settings.newest
        assert newest is not None
        assert [finding.field for finding in newest.findings if finding.severity == "error"] == ["spec.trustedCA.name"]
        await until_settings(cluster, "Valid", "False")
        uid = (await cluster.client.get(EGRESS_PROXIES, "cluster")).metadata.uid
        (told,) = await cluster.told("cluster", "InvalidSettings", "default", uid)
        assert told.startswith("spec.trustedCA.name")


async def test_after_a_start_with_invalid_settings_hosts_are_left_alone(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, trustedCA={"name": "nobody-made-it"})
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", Configured="Unknown/SettingsInvalid")
        assert host.traffic.connections == 0


async def test_each_bad_instance_costs_itself_alone(cluster: Cluster) -> None:
    good, paused, twin = [await cluster.simulator.add_host() for _ in range(3)]
    down, other, keyless = [await cluster.simulator.add_host() for _ in range(3)]
    down.cut_power()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await node(cluster, "win-other", {"windowsmachineconfig.openshift.io/version": "10.21"})
    await cluster.instance("good", good)
    await cluster.instance("paused", paused, paused=True)
    await cluster.instance("keyless", keyless, keySecret={"name": "nobody-made-it"})
    await cluster.instance("other", other, nodeName="win-other")
    await cluster.instance("down", down)
    await cluster.instance("twin", twin)
    await asyncio.sleep(1.1)  # creation times have seconds
    await cluster.instance("twin-again", twin)
    await cluster.instance("no-address", None, address="10.0.0.300", username="Administrator")
    async with cluster.operator():
        await cluster.until("good", ProxyApplied="True/Applied")
        await cluster.until("paused", Configured="Unknown/Paused")
        await cluster.until("keyless", Configured="False/KeyMissing")
        await cluster.until("other", Configured="False/ManagedByOther")
        await cluster.until("down", Configured="False/Unreachable", Reachable="False/Unreachable", ProxyApplied="Unknown")
        await cluster.until("twin", ProxyApplied="True/Applied")
        await cluster.until("twin-again", Configured="False/InvalidSpec")
        await cluster.until("no-address", Configured="False/InvalidSpec")
        assert (paused.traffic.connections, other.traffic.connections) == (0, 0)
        await cluster.merge(NODES, "win-other", {"metadata": {"annotations": {"transom.dev/adopt": "true"}}})
        await cluster.merge(WINDOWS_INSTANCES, "paused", {"spec": {"paused": None}})
        await cluster.delete(WINDOWS_INSTANCES, "twin")
        key = cluster.simulator.client_key.export_private_key().decode()
        await cluster.put(SECRETS, "nobody-made-it", stringData={"private-key.pem": key})
        await down.boot()
        for name in ("other", "paused", "keyless", "down", "twin-again"):
            await cluster.until(name, Configured="True", ProxyApplied="True/Applied")
    assert [event for event in await cluster.events("down") if event[1] == "Unreachable"]


async def test_the_status_of_a_paused_one_is_written_once(cluster: Cluster) -> None:
    """Its Node comes and goes meanwhile; another's status says so."""
    names = {item: f"{item}-{cluster.namespace}" for item in ("paused", "other")}
    for entry, name in names.items():
        await node(cluster, name, {})
        await cluster.instance(entry, await cluster.simulator.add_host(), nodeName=name, paused=entry == "paused")
    async with cluster.operator() as operator:
        await cluster.until("paused", Ready="False/Paused", Configured="Unknown/Paused", NodeReady="Unknown/Paused")
        await cluster.until("other", Configured="True", NodeReady="Unknown/NotReported")
        before = (await cluster.client.get(WINDOWS_INSTANCES, "paused", cluster.namespace)).metadata.resource_version
        for name in names.values():
            await heartbeat(cluster, name, 1)
        await cluster.until("other", NodeReady="True/KubeletReady")
        queue = operator.controllers["hosts"].queue
        await until(lambda: queue.working == 0 and not len(queue))
        now = (await cluster.client.get(WINDOWS_INSTANCES, "paused", cluster.namespace)).metadata.resource_version
        assert now == before
        await cluster.merge(WINDOWS_INSTANCES, "paused", {"spec": {"paused": None}})
        await cluster.until("paused", Configured="True", NodeReady="True/KubeletReady")
    for name in names.values():
        await cluster.delete(NODES, name)


async def test_a_node_of_another_operator_known_by_the_name_of_its_host(cluster: Cluster) -> None:
    """Only once it is connected to; nothing is changed there then."""
    host = await cluster.simulator.add_host("WIN-THEIRS")
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await node(cluster, "win-theirs", {"windowsmachineconfig.openshift.io/version": "10.21"})
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", Configured="False/ManagedByOther", Reachable="True/Connected", ProxyApplied="False")
    assert changes(host) == 0


async def test_a_key_that_cannot_be_used(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.put(SECRETS, "broken", stringData={"private-key.pem": "-----BEGIN PRIVATE KEY-----\nhunter2\n"})
    await cluster.instance("win-1", host, keySecret={"name": "broken"})
    async with cluster.operator():
        await cluster.until("win-1", Configured="False/KeyInvalid", Reachable="Unknown/KeyInvalid")
        assert host.traffic.connections == 0
        assert "hunter2" not in str(await cluster.events("win-1"))
        assert "hunter2" not in str(await cluster.status("win-1"))


async def test_a_host_key_is_trusted_once(cluster: Cluster) -> None:
    """Another key is refused until a person clears the recorded one."""
    host = await cluster.simulator.add_host()
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", Configured="True")
        recorded = (await cluster.status("win-1"))["hostKeyFingerprint"]
        assert recorded == fingerprint(cluster, host)
        await cluster.simulator.change_host_key(host)
        await touch(cluster, "win-1")
        await cluster.until("win-1", Configured="False/HostKeyChanged", Reachable="False/HostKeyChanged")
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"status": {"hostKeyFingerprint": None}}, "status")
        await cluster.until("win-1", Configured="True")
        assert (await cluster.status("win-1"))["hostKeyFingerprint"] == fingerprint(cluster, host) != recorded


async def test_a_change_reaches_only_whom_it_concerns(cluster: Cluster) -> None:
    """Heartbeats, nodes that join, other Secrets and ConfigMaps: no host is connected to for them."""
    one, two = await cluster.simulator.add_host(), await cluster.simulator.add_host()
    key = cluster.simulator.client_key.export_private_key().decode()
    await cluster.put(SECRETS, "second", stringData={"private-key.pem": key})
    await cluster.bundle(ROOT_1)
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, trustedCA={"name": "corp-ca"})
    await cluster.instance("win-1", one, nodeName="win-1")
    await cluster.instance("win-2", two, keySecret={"name": "second"})
    await node(cluster, "win-1", {})
    await heartbeat(cluster, "win-1", 0)
    async with cluster.operator() as operator:
        # whichever host is the first: the other one's turn comes when this one's kubelet was heard of again
        await until(lambda: SHA1_1 in roots(one))
        await heartbeat(cluster, "win-1", 1)
        await cluster.until("win-1", TrustApplied="True/Applied", NodeReady="True/KubeletReady")
        await cluster.until("win-2", TrustApplied="True/Applied")
        queue = operator.controllers["hosts"].queue
        await until(lambda: queue.working == 0 and not len(queue))
        seen = [host.traffic.connections for host in (one, two)]
        for beat in range(20):
            await heartbeat(cluster, "win-1", 2 + beat)
            await node(cluster, f"joins-{beat}", {})
        await cluster.bundle(ROOT_2, name="somebody-elses")
        await cluster.put(SECRETS, "somebody-elses", stringData={"password": PASSWORD})
        await cluster.put(
            CONFIG_MAPS, "corp-ca", metadata={"name": "corp-ca", "labels": {"touched": "yes"}}, data={"ca-bundle.crt": ROOT_1}
        )
        await cluster.put(SECRETS, "second", stringData={"private-key.pem": key + "\n"})
        await until(lambda: two.traffic.connections > seen[1])
        await until(lambda: queue.working == 0 and not len(queue))
        assert [host.traffic.connections for host in (one, two)] == [seen[0], seen[1] + 1]


async def test_credentials_are_in_no_status_and_no_event(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.put(SECRETS, "egress-credentials", stringData={"username": "alice", "password": PASSWORD})
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, credentialsSecret={"name": "egress-credentials"})
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", ProxyApplied="True/Applied")
        assert any("hunter2" in item for item in environment(host, "containerd"))
        await cluster.put(SECRETS, "egress-credentials", stringData={"username": "alice", "password": PASSWORD + "new"})
        await until(lambda: any(item.rpartition("@")[0].endswith("xnew") for item in environment(host, "containerd")))
        await cluster.until("win-1", Configured="True")
    said = str(await cluster.status("win-1")) + str(await cluster.events("win-1"))
    assert "hunter2" not in said
    assert "alice" not in said


async def test_scope_machine_waits_for_the_boot(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, windows={"environmentScope": "Machine"})
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await cluster.until("win-1", ProxyApplied="False/PendingBoot", RebootRequired="True/PendingBoot", Configured="True")
        assert [len(host.starts(name)) for name in ("containerd", "kubelet")] == [1, 1]
        await host.boot()
        await touch(cluster, "win-1")
        await cluster.until("win-1", ProxyApplied="True/Applied", RebootRequired="False/NotRequired")


async def until_settings(cluster: Cluster, type_: str, status: str) -> None:
    """Wait for a condition of EgressProxy/cluster."""

    async def said() -> bool:
        held = (await cluster.client.get(EGRESS_PROXIES, "cluster")).value
        conditions = (held.get("status") or {}).get("conditions") or ()
        return (type_, status) in [(condition["type"], condition["status"]) for condition in conditions]

    await until(said)


async def touch(cluster: Cluster, name: str) -> None:
    """Have a host looked at now."""
    await cluster.merge(WINDOWS_INSTANCES, name, {"metadata": {"annotations": {"test/touched": "yes"}}})


async def node(cluster: Cluster, name: str, annotations: dict[str, str]) -> None:
    await cluster.put(NODES, name, metadata={"name": name, "annotations": annotations})


async def heartbeat(cluster: Cluster, name: str, number: int) -> None:
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": f"2126-11-21T10:00:{number:02}Z",
    }
    await cluster.merge(NODES, name, {"status": {"conditions": [condition]}}, "status")


async def test_the_hash_in_a_status_has_a_key_that_no_host_knows(cluster: Cluster) -> None:
    """Two hosts, one Secret; it lasts over the operator's life, and another one gives other hashes."""
    hosts = [await cluster.simulator.add_host() for _ in range(2)]
    await cluster.proxy(httpProxy=f"http://user:{quote(PASSWORD)}@proxy.corp.example:3128")
    for number, host in enumerate(hosts):
        await cluster.instance(f"win-{number}", host)

    async def hashes() -> list[str]:
        for number in range(2):
            await cluster.until(f"win-{number}", ProxyApplied="True/Applied")
        return [(await cluster.status(f"win-{number}"))["stateHash"] for number in range(2)]

    async with cluster.operator():
        first = await hashes()
    held = (await cluster.client.get(SECRETS, "transom-hash-key", cluster.namespace)).value
    assert len(base64.b64decode(held["data"]["key"])) == 32
    assert held["immutable"] is True
    top = hosts[0].registry.find_key(LEDGER)
    assert top is not None
    of_ledger = top.get("StateHash")
    assert of_ledger is not None
    assert of_ledger.decode_text() != first[0]
    key = base64.b64decode(held["data"]["key"])
    assert hmac.new(key, of_ledger.decode_text().encode(), hashlib.sha256).hexdigest()[:32] == first[0]

    async with cluster.operator():
        await until(lambda: all(host.traffic.connections > 1 for host in hosts))
        assert await hashes() == first
    await cluster.delete(SECRETS, "transom-hash-key")

    async def others() -> bool:
        return await hashes() != first

    async with cluster.operator():
        await until(others)


async def test_who_asks_at_once_gets_one_key(cluster: Cluster) -> None:
    """By a key of none a change would have no name, and would be begun anew by the next process, whatever became of it."""
    informers = cast("Informers", SimpleNamespace(secrets=Store(), namespace=cluster.namespace))
    leadership = cast("Leadership", SimpleNamespace(client=cluster.client))
    keys = [HashKey(informers) for _ in range(3)]
    found = await asyncio.gather(*(key.compute_hash("text", leadership) for key in keys for _ in range(3)))
    assert None not in found
    assert len(set(found)) == 1


async def test_a_status_does_not_go_to_another_instance_of_the_same_name(cluster: Cluster) -> None:
    """The pass was begun for an instance that was deleted, and one of its name was made, before it ended."""
    host = await cluster.simulator.add_host(time_scale=0.2)
    host.services.get("containerd").stop_seconds = 10
    await cluster.proxy(httpProxy=PROXY)
    await cluster.instance("win-1", host)
    async with cluster.operator():
        await until(lambda: f"HTTP_PROXY={PROXY}" in environment(host, "containerd"))
        # as somebody who does not wait for the host
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"finalizers": None}})
        await cluster.delete(WINDOWS_INSTANCES, "win-1")
        await cluster.instance("win-1", host, paused=True)
        await cluster.until("win-1", Configured="Unknown/Paused")
        await until(lambda: len(host.starts("containerd")) == 2)
        await asyncio.sleep(0.5)
        found = await cluster.conditions("win-1")
    assert found["Configured"] == ("Unknown", "Paused")
    assert found["ProxyApplied"][1] == "Paused"
