"""Another payload: each Node is drained, its host changed, and the Node given back; not too many at once, and not for ever."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.operator.clusters import PROXY, Cluster, environment
from tests.support.operator.kubelets import Kubelets
from tests.support.operator.limited import limited
from tests.support.operator.nodes import reasons
from tests.support.operator.rights import asked
from tests.support.operator.rollouts import breaks_tls, halted
from tests.support.operator.upgrades import MARKS, NETWORKS, PROGRAM, QUICK, nodes, upgraded
from tests.support.waiting import PATIENCE, until
from tests.support.workers.payloads import TEXT, write

from lab import openshift
from transom.kube.errors import NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import NODES, WINDOWS_INSTANCES, Resource

pytestmark = pytest.mark.lab
OTHER = "http://other.corp.example:3128"
MACHINES = Resource("machine.openshift.io", "v1beta1", "Machine", "machines", True, UnstructuredObject)
MACHINE_SETS = Resource("machine.openshift.io", "v1beta1", "MachineSet", "machinesets", True, UnstructuredObject)


async def test_one_node_after_the_other_and_a_proxy_change_in_between(
    cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path
) -> None:
    """A budget holds the first one up; the proxy that is changed meanwhile comes with the upgrade, by the same restart."""
    hosts = await nodes(cluster, kubelets, payload, 3)
    for number, host in enumerate(hosts):
        name = host.name.lower()
        await kubelets.pod(f"web-{number}", name, app="web")
        await kubelets.pod(f"other-{number}", name)
        await kubelets.pod(f"everywhere-{number}", name, "DaemonSet")
    await kubelets.budget(0)
    only = ("hosts", "certificates", "nodes")
    before = [len(host.starts("kubelet")) for host in hosts]
    async with limited(cluster, *only) as client, cluster.operator(client, controllers=only, payload=newer, pace=QUICK):
        await until(lambda: len(kubelets.order) == 1)
        first = next(number for number, host in enumerate(hosts) if host.name.lower() == kubelets.order[0])
        await cluster.until(f"win-{first}", Configured="False/Draining")
        budget = ("disruption budget", "budget web needs 1 healthy pods and has 1 currently")
        await cluster.says(f"win-{first}", *budget, f"{cluster.namespace}/web-{first}")
        for number in set(range(3)) - {first}:
            await cluster.until(f"win-{number}", Configured="False/UpgradePending")
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER, networks=NETWORKS)
        for number in set(range(3)) - {first}:
            # who waits for a slot does not wait for the proxy
            await until(lambda number=number: f"HTTP_PROXY={OTHER}" in environment(hosts[number], "kubelet"))
        assert f"HTTP_PROXY={PROXY}" in environment(hosts[first], "kubelet")
        await kubelets.budget(9)
        for number in range(3):
            await upgraded(cluster, f"win-{number}")
    used = {
        use
        for use, _, code in asked(cluster.control_plane, f"system:serviceaccount:{cluster.namespace}:transom", cluster.began)
        if code < 400
    }
    assert {("", "pods", "list"), ("", "pods/eviction", "create"), ("", "nodes", "patch")} <= used
    assert kubelets.most_away == 1
    assert len(hosts[first].starts("kubelet")) == before[first] + 1
    assert all(f"HTTP_PROXY={OTHER}" in environment(host, "kubelet") for host in hosts)
    assert await kubelets.pods() == {f"everywhere-{number}" for number in range(3)}
    told = await reasons(cluster, f"win-{first}")
    # their times are whole seconds: of two within one nobody can say which came first
    assert sorted(item for item in told if item in ("Cordoned", "Drained", "Uncordoned")) == [
        "Cordoned",
        "Drained",
        "Uncordoned",
    ]


async def test_two_at_a_time(cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path) -> None:
    """One first, for it could go wrong; then two, which have a new proxy by the same restart.

    One that a person cordoned stays cordoned. `tests.stories.nodes.test_nodes` tells the same of kubelet.exe.
    """
    hosts = await nodes(cluster, kubelets, payload, 4)
    numbers = {host.name.lower(): number for number, host in enumerate(hosts)}
    for name, number in numbers.items():
        await kubelets.pod(f"held-{number}", name, app="web")
    await kubelets.budget(0)
    before = [len(host.starts("kubelet")) for host in hosts]

    def gained() -> list[int]:
        return [len(host.starts("kubelet")) - starts for host, starts in zip(hosts, before, strict=True)]

    async with cluster.operator(payload=newer, pace=QUICK, max_unavailable=2):
        await until(lambda: len(kubelets.order) == 1)
        first = numbers[kubelets.order[0]]
        await cluster.until(f"win-{first}", Configured="False/Draining")
        assert kubelets.most_away == 1
        await kubelets.budget(1)
        await upgraded(cluster, f"win-{first}")
        await until(lambda: len(kubelets.order) == 3)
        pair = [numbers[name] for name in kubelets.order[1:]]
        (last,) = set(range(4)) - {first, *pair}
        for number in pair:
            await cluster.until(f"win-{number}", Configured="False/Draining")
        await cluster.until(f"win-{last}", Configured="False/UpgradePending")
        await cluster.merge(NODES, hosts[last].name.lower(), {"spec": {"unschedulable": True}})
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER, networks=NETWORKS)
        for number in (first, last):
            await until(lambda number=number: f"HTTP_PROXY={OTHER}" in environment(hosts[number], "kubelet"))
        assert [gained()[number] for number in pair] == [0, 0]
        await kubelets.budget(9)
        for number in (first, *pair):
            await upgraded(cluster, f"win-{number}")
        await cluster.until(f"win-{last}", Configured="True/UpToDate")
        async with asyncio.timeout(PATIENCE):
            while (node := await kubelets.node(hosts[last].name.lower()))["metadata"]["annotations"].keys() & set(MARKS):
                await asyncio.sleep(0.05)
    assert node["spec"]["unschedulable"]
    assert node["metadata"]["annotations"]["transom.dev/payload-version"] == "1.36.3-2"
    assert "Uncordoned" not in await reasons(cluster, f"win-{last}")
    assert [gained()[number] for number in (first, *pair, last)] == [2, 1, 1, 2]
    assert all(f"HTTP_PROXY={OTHER}" in environment(host, "kubelet") for host in hosts)


async def test_a_machine_set_lets_fewer_go(cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path) -> None:
    """Three may be away, and of the two of the set one; a person who allows more need not wait."""
    plane, namespace = cluster.control_plane, cluster.namespace
    await asyncio.to_thread(openshift.define, plane, openshift.MACHINE_API)
    await cluster.put(MACHINE_SETS, "win", metadata=limited_to(namespace, "1"))
    hosts = await nodes(cluster, kubelets, payload, 4)
    uid = (await cluster.client.get(MACHINE_SETS, "win", namespace)).metadata.uid
    owner = {"apiVersion": MACHINE_SETS.api_version, "kind": "MachineSet", "name": "win", "uid": uid, "controller": True}
    for number in (1, 2):
        metadata = {"name": f"m-{number}", "namespace": namespace, "ownerReferences": [owner]}
        await cluster.put(MACHINES, f"m-{number}", metadata=metadata | {"labels": {"machine.openshift.io/os-id": "Windows"}})
        marks = {"labels": {"transom.dev/source": "Machine"}, "annotations": {"transom.dev/origin": f"{namespace}/m-{number}"}}
        await cluster.merge(WINDOWS_INSTANCES, f"win-{number}", {"metadata": marks})
    for number in (1, 2, 3):
        await cluster.merge(WINDOWS_INSTANCES, f"win-{number}", {"spec": {"paused": True}})
        await kubelets.pod(f"web-{number}", hosts[number].name.lower(), app="web")
    await kubelets.budget(0)
    only = ("egress", "hosts", "certificates", "nodes")
    async with cluster.operator(controllers=only, payload=newer, pace=QUICK, max_unavailable=3):
        await upgraded(cluster, "win-0")
        for number in (1, 2, 3):
            await cluster.merge(WINDOWS_INSTANCES, f"win-{number}", {"spec": {"paused": False}})
        await cluster.until("win-3", Configured="False/Draining")
        await until(lambda: len(kubelets.order) == 3)
        (first,) = {number for number in (1, 2) if hosts[number].name.lower() in kubelets.order}
        await cluster.until(f"win-{first}", Configured="False/Draining")
        await cluster.until(f"win-{3 - first}", Configured="False/UpgradePending")
        limit = "1 may be away at once (transom.dev/max-unavailable of MachineSet win)"
        await cluster.says(f"win-{3 - first}", f"it waits for win-{first}: {limit}")
        await cluster.put(MACHINE_SETS, "win", metadata=limited_to(namespace, "2"))
        await cluster.until(f"win-{3 - first}", Configured="False/Draining")
        await kubelets.budget(9)
        for number in (1, 2, 3):
            await upgraded(cluster, f"win-{number}")
    await asyncio.to_thread(openshift.forget, plane, openshift.MACHINE_API)


def limited_to(namespace: str, most: str) -> dict[str, Any]:
    """The metadata of a MachineSet that lets so many machines be away."""
    return {"name": "win", "namespace": namespace, "annotations": {"transom.dev/max-unavailable": most}}


async def test_a_budget_that_never_allows(cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path) -> None:
    """Named, given up, nothing changed on the host, and the Node takes pods again; the next one has its turn.

    A removal says the same, and does not give up: nothing is done to the host before the pod has gone.
    """
    hosts = await nodes(cluster, kubelets, payload, 2)
    await kubelets.budget(0)
    for number, host in enumerate(hosts[:1]):
        await kubelets.pod(f"web-{number}", host.name.lower(), app="web")
    program = hosts[0].files.read(PROGRAM)
    async with cluster.operator(payload=newer, pace=msgspec.structs.replace(QUICK, drain=1)):
        await cluster.says("win-0", "accepts pods again", f"{cluster.namespace}/web-0", "budget web")
        await cluster.told("win-0", "DrainBlocked")
        await upgraded(cluster, "win-1")
        assert hosts[0].files.read(PROGRAM) == program
        assert "web-0" in await kubelets.pods()
        await cluster.delete(WINDOWS_INSTANCES, "win-0")
        # it may have been drained once more for the upgrade: that drain goes on
        await cluster.says("win-0", "is drained", f"{cluster.namespace}/web-0", "budget web")
        await cluster.until("win-0", Configured="False/DrainBlocked")
        await asyncio.sleep(2 * QUICK.unready)
        assert (await kubelets.node(hosts[0].name.lower()))["spec"]["unschedulable"]
        assert "web-0" in await kubelets.pods()
        assert hosts[0].files.read(PROGRAM) == program
        await kubelets.budget(9)
        await cluster.gone("win-0")
    assert not hosts[0].files.exists(PROGRAM)
    assert await kubelets.pods() == set()
    told = [text for _, reason, text in await cluster.events("win-0") if reason == "DrainBlocked"]
    assert all(f"{cluster.namespace}/web-0" in text for text in told)
    # told again and again, in one event
    assert sum("budget web" in text for text in told) == 1


async def test_a_payload_that_is_withdrawn_half_way(cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path) -> None:
    """The operator ends while it drains; the next one has the former payload, and gives the Node back; then the newer one."""
    (host,) = await nodes(cluster, kubelets, payload, 1)
    await kubelets.pod("web", host.name.lower(), app="web")
    await kubelets.budget(0)
    starts = len(host.starts("kubelet"))
    async with cluster.operator(payload=newer, pace=QUICK):
        await cluster.until("win-0", Configured="False/Draining")
    assert (await kubelets.node(host.name.lower()))["metadata"]["annotations"]["transom.dev/cordoned"] == "upgrade"
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.until("win-0", Configured="True/UpToDate")
        async with asyncio.timeout(PATIENCE):
            while (node := await kubelets.node(host.name.lower()))["spec"].get("unschedulable"):
                await asyncio.sleep(0.05)
    assert not node["metadata"]["annotations"].keys() & set(MARKS)
    assert len(host.starts("kubelet")) == starts
    await kubelets.budget(1)
    # on an empty node nobody has to wait for a person's word
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY, networks=NETWORKS, windows={"restart": "Manual"})
    async with cluster.operator(payload=newer, pace=QUICK):
        await upgraded(cluster, "win-0")
    assert len(host.starts("kubelet")) == starts + 1


async def test_a_host_that_cannot_be_reached_holds_nobody_up_for_ever(
    cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path
) -> None:
    hosts = await nodes(cluster, kubelets, payload, 2)
    await kubelets.pod("web", hosts[0].name.lower(), app="web")
    await kubelets.budget(0)
    async with cluster.operator(payload=newer, pace=msgspec.structs.replace(QUICK, drain=2, ready=0.5)):
        await cluster.until("win-0", Configured="False/Draining")
        hosts[0].faults.refuses = True
        await kubelets.budget(1)
        await cluster.until("win-0", Configured="False/Unreachable")
        await upgraded(cluster, "win-1")
        hosts[0].faults.refuses = False
        await upgraded(cluster, "win-0")


async def test_an_instance_that_is_deleted_while_its_node_is_drained(
    cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path
) -> None:
    """The drain goes on, for the removal; its slot goes to the next one."""
    hosts = await nodes(cluster, kubelets, payload, 2)
    for number, host in enumerate(hosts):
        await kubelets.pod(f"web-{number}", host.name.lower(), app="web")
    await kubelets.budget(0)
    async with cluster.operator(payload=newer, pace=QUICK):
        await until(lambda: len(kubelets.order) == 1)
        first = next(number for number, host in enumerate(hosts) if host.name.lower() == kubelets.order[0])
        await cluster.until(f"win-{first}", Configured="False/Draining")
        await cluster.delete(WINDOWS_INSTANCES, f"win-{first}")
        await until(lambda: len(kubelets.order) == 2)
        await kubelets.budget(9)
        await upgraded(cluster, f"win-{1 - first}")
        await cluster.gone(f"win-{first}")
    assert not hosts[first].files.exists(PROGRAM)
    with pytest.raises(NotFound):
        await kubelets.node(hosts[first].name.lower())


async def test_a_version_that_does_not_run_stops_after_two(
    cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path
) -> None:
    """Two hosts fail and have their former version again; no other is drained, and a restarted operator knows it."""
    (newer / "bin" / "kubelet.exe").write_bytes(b"MZends 1 after 1")
    hosts = await nodes(cluster, kubelets, payload, 4)
    async with cluster.operator(payload=newer, pace=QUICK):
        await halted(cluster, "True")
    before = [len(host.starts("kubelet")) for host in hosts]
    failed = [number for number in range(4) if ":failed" in (await cluster.status(f"win-{number}")).get("changes", "")]
    assert len(failed) == 2
    async with cluster.operator(payload=newer, pace=QUICK):
        for number in set(range(4)) - set(failed):
            await cluster.until(f"win-{number}", Configured="False/RolloutHalted")
            await cluster.says(f"win-{number}", "payload 1.36.3-1 is installed")
        for number in failed:
            await cluster.until(f"win-{number}", Configured="False/PutBack")
        assert "2 hosts failed with payload 1.36.3-2" in await halted(cluster, "True")
        for host in hosts:
            async with asyncio.timeout(PATIENCE):
                while (await kubelets.node(host.name.lower()))["spec"].get("unschedulable"):
                    await asyncio.sleep(0.05)
    assert len(set(kubelets.order)) == 2
    assert [len(hosts[number].starts("kubelet")) for number in failed] == [before[number] for number in failed]


async def test_a_version_that_does_not_run_reaches_two_nodes_that_are_not_ready(
    cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path
) -> None:
    """They wait for their turn as the others do; nobody drains them, and the next version mends them."""
    hosts = await nodes(cluster, kubelets, payload, 4)
    wrong = write(newer.parent / "wrong", TEXT.replace("1.36.3-1", "1.36.3-0"))
    (wrong / "bin" / "kubelet.exe").write_bytes(b"MZends 1 after 1")
    for host in hosts:
        kubelets.silent.add(host.name.lower())
        await kubelets.beat(host.name.lower(), "False")
    before = [len(host.starts("kubelet")) for host in hosts]
    async with cluster.operator(payload=wrong, pace=QUICK):
        await halted(cluster, "True")
        tried = [number for number, host in enumerate(hosts) if len(host.starts("kubelet")) > before[number]]
        assert len(tried) == 2
        for number in set(range(4)) - set(tried):
            await cluster.until(f"win-{number}", Configured="False/RolloutHalted")
            assert len(hosts[number].starts("kubelet")) == before[number]
    async with cluster.operator(payload=newer, pace=QUICK):
        for number, host in enumerate(hosts):
            await until(lambda number=number: len(hosts[number].starts("kubelet")) > before[number])
            async with asyncio.timeout(60):
                while (await cluster.status(f"win-{number}")).get("payloadVersion") != "1.36.3-2":
                    await asyncio.sleep(0.05)
            kubelets.silent.discard(host.name.lower())
            await kubelets.beat(host.name.lower())
        for number in range(4):
            await upgraded(cluster, f"win-{number}", 60)
    assert kubelets.order == []


async def test_a_proxy_that_breaks_tls_reaches_one_node(cluster: Cluster, kubelets: Kubelets, payload: Path) -> None:
    """Whether the Nodes are Ready at that time or not."""
    hosts = await nodes(cluster, kubelets, payload, 3)
    for host in hosts[:2]:
        await kubelets.beat(host.name.lower(), "False")
    for host in hosts:
        host.fetch = breaks_tls
    checks = {"readinessEndpoints": ["https://registry.corp.example/v2/"], "readinessPolicy": "Report"}
    async with cluster.operator(payload=payload, pace=QUICK):
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER, networks=NETWORKS, **checks)
        said = await halted(cluster, "True")
        changed = [number for number, host in enumerate(hosts) if f"HTTP_PROXY={OTHER}" in environment(host, "kubelet")]
        assert len(changed) == 1
        assert f"the first host has no egress with these settings (win-{changed[0]})" in said
        for number in set(range(3)) - set(changed):
            await cluster.until(f"win-{number}", Configured="False/RolloutHalted")
    assert kubelets.order == []


async def test_a_wrong_proxy_in_the_middle_of_an_upgrade_reaches_one_node(
    cluster: Cluster, kubelets: Kubelets, payload: Path, newer: Path
) -> None:
    """A Node that was emptied takes pods again: it gets what last passed with its new version, and no wrong proxy."""
    hosts = await nodes(cluster, kubelets, payload, 4)
    for number, host in enumerate(hosts):
        await kubelets.pod(f"web-{number}", host.name.lower(), app="web")
    await kubelets.budget(0)
    checks = {"readinessEndpoints": ["https://registry.corp.example/v2/"], "readinessPolicy": "Report"}
    async with cluster.operator(payload=newer, pace=QUICK, max_unavailable=2):
        await until(lambda: len(kubelets.order) == 1)
        (emptied,) = [number for number, host in enumerate(hosts) if host.name.lower() in kubelets.order]
        await cluster.until(f"win-{emptied}", Configured="False/Draining")
        for host in hosts:
            host.fetch = breaks_tls
        await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER, networks=NETWORKS, **checks)
        said = await halted(cluster, "True")
        await kubelets.budget(9)
        async with asyncio.timeout(PATIENCE):
            while (await cluster.status(f"win-{emptied}")).get("payloadVersion") != "1.36.3-2":
                await asyncio.sleep(0.05)
            while (await kubelets.node(hosts[emptied].name.lower()))["spec"].get("unschedulable"):
                await asyncio.sleep(0.05)
        changed = [number for number, host in enumerate(hosts) if f"HTTP_PROXY={OTHER}" in environment(host, "kubelet")]
        assert len(changed) == 1
        assert changed != [emptied]
        assert f"(win-{changed[0]})" in said


async def test_a_node_that_has_to_boot_is_drained_first(cluster: Cluster, kubelets: Kubelets, payload: Path) -> None:
    (host,) = await nodes(cluster, kubelets, payload, 1)
    await kubelets.pod("web", host.name.lower())
    boot = host.boot_id
    host.features.clear()
    write(payload, TEXT.replace("[10250, 9182]", "[10250]"))
    async with cluster.operator(payload=payload, pace=QUICK):
        await until(lambda: host.boot_id != boot)
        assert await kubelets.pods() == set()
        await cluster.until("win-0", Configured="True/UpToDate", RebootRequired="False", NodeReady="True")
        async with asyncio.timeout(PATIENCE):
            while (await kubelets.node(host.name.lower()))["spec"].get("unschedulable"):
                await asyncio.sleep(0.05)
    assert host.boot_id == boot + 1
    assert {"Cordoned", "Drained", "Rebooting", "Uncordoned"} <= set(await reasons(cluster, "win-0"))
