"""Disasters of a cluster: what is reported meanwhile is true, hosts keep what they have, and all of it heals.

`look` is what `transom status` and `transom doctor` read. docs/failures.md has the way out of each.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from lab.control_plane import ControlPlane
from tests.support.operator.clusters import PROXY, QUICK, QUOTAS, Cluster, at_work, environment, open_cluster
from tests.support.operator.gate import Gate, gate_to
from tests.support.operator.stories import OTHER, changes, story
from tests.support.waiting import until

from transom.cli.observation import build_observed, list_doctor_queries, observe_for_doctor, refresh_stale_objects, run_queries
from transom.controllers.operator import Operator, Options
from transom.controllers.runtime.options import HostTimings
from transom.diagnosis.checks import diagnose
from transom.diagnosis.overview import Overview, build_overview
from transom.diagnosis.snapshot import ClusterSnapshot
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.lease import LeaseTimings
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, DEFINITIONS, EGRESS_PROXIES, LEASES, NAMESPACES, Resource
from transom.manifests.definitions import build_crds
from transom.manifests.roles import iter_roles
from winsim import Host, Simulator

pytestmark = pytest.mark.lab
TERMS = LeaseTimings(duration=4, renew=2.0, retry=0.3, request=1.0)
PACE = HostTimings(rights=0.6)
CONTROLLERS = ("egress", "hosts")
VALIDATING = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
    UnstructuredObject,
)


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    """One of this file: its etcd is filled, its certificates are replaced, its definitions are deleted."""
    with ControlPlane(definitions=build_crds()) as running:
        yield running


@pytest.fixture
async def stricken(own_plane: ControlPlane, simulator: Simulator) -> AsyncIterator[Cluster]:
    async with open_cluster(own_plane, simulator) as made:
        yield made


async def look(cluster: Cluster, *, again: bool = False) -> ClusterSnapshot:
    """Read what the commands read; `again`: with their second look at the lease."""
    answers = await run_queries(cluster.client, list_doctor_queries(cluster.namespace))
    seen = build_observed(answers, "here", cluster.namespace, datetime.now(UTC))
    return await refresh_stale_objects(cluster.client, seen) if again else seen


def find(seen: ClusterSnapshot, id_: str) -> list[tuple[str, str]]:
    """Return evidence and command of a check of `transom doctor`."""
    return [(item.evidence, item.command) for item in diagnose(seen) if item.id == id_]


async def read_condition(cluster: Cluster, type_: str) -> tuple[str, str, str]:
    base = (await cluster.client.get(EGRESS_PROXIES, "cluster")).value
    found = (base.get("status") or {}).get("conditions", ())
    return next(((item["status"], item["reason"], item["message"]) for item in found if item["type"] == type_), ("", "", ""))


async def has_condition(cluster: Cluster, type_: str, status: str) -> None:
    async def fits() -> bool:
        return (await read_condition(cluster, type_))[0] == status

    await until(fits)


async def add_hosts(cluster: Cluster, *names: str) -> dict[str, Host]:
    hosts = {}
    for name in names:
        hosts[name] = await cluster.simulator.add_host()
        await cluster.instance(name, hosts[name])
    return hosts


async def has_proxy(host: Host, proxy: str) -> None:
    await until(lambda: f"HTTPS_PROXY={proxy}" in environment(host, "kubelet"))


def says_ready(overview: Overview) -> list[str]:
    return [f"{row.kind}/{row.name}" for row in overview.objects if row.ready == "True"]


async def reports_no_leader(cluster: Cluster) -> ClusterSnapshot:
    """Wait until the lease is old enough for one look, and return what was seen."""

    async def has_none() -> ClusterSnapshot | None:
        seen = await look(cluster)
        leader = build_overview(seen).leader
        return seen if leader is not None and not leader.working else None

    seen: ClusterSnapshot = await until(has_none)
    assert find(seen, "leader-missing")
    return seen


async def test_etcd_is_full(stricken: Cluster) -> None:
    """NOSPACE: reads go on, no write is taken, not even the lease: nobody leads, and that is what is reported."""
    plane = stricken.control_plane
    async with story(stricken, terms=TERMS, pace=PACE) as told:
        await asyncio.to_thread(plane.set_etcd_full, full=True)
        try:
            await until(lambda: not told.operator.working)
            asked = len(told.gate.requests)
            await reports_no_leader(stricken)
            # seconds have passed: no loop runs hot
            assert len(told.gate.requests) - asked < 200
            seen, _ = await observe_for_doctor(stricken.client, "here", stricken.namespace, datetime.now(UTC))
            ((evidence, command),) = find(seen, "etcd-full")
            assert "etcdserver: mvcc: database space exceeded" in evidence
            assert all(step in command for step in ("etcdctl compact", "etcdctl defrag", "etcdctl alarm disarm"))
            assert "etcd-full" in find(seen, "leader-missing")[0][0]
            assert find(seen, "writes-refused") == []
            assert changes(told.host) == 1
            assert f"HTTPS_PROXY={PROXY}" in environment(told.host, "kubelet")
        finally:
            await asyncio.to_thread(plane.set_etcd_full, full=False)
        await told.edit()
        await told.followed()
        seen, _ = await observe_for_doctor(stricken.client, "here", stricken.namespace, datetime.now(UTC))
        assert find(seen, "etcd-full") == find(seen, "leader-missing") == []


async def test_a_quota_forbids_the_record_of_a_rollout(stricken: Cluster) -> None:
    """Without its ConfigMap no host is started: each place names the quota, not the queue of the hosts."""
    hosts = await add_hosts(stricken, "win-1", "win-2")
    await stricken.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with stricken.operator(controllers=CONTROLLERS, terms=TERMS, pace=PACE):
        for name in hosts:
            await stricken.until(name, Configured="True", ProxyApplied="True/Applied")
        await stricken.delete(CONFIG_MAPS, "transom-rollouts")
        await stricken.forbid_config_maps()
        await stricken.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await has_condition(stricken, "WritesRefused", "True")
        _, reason, message = await read_condition(stricken, "WritesRefused")
        assert reason == "WriteRefused"
        assert "create configmaps" in message
        assert "quota" in message
        assert any("quota" in text for text in await stricken.told("transom", "WriteRefused"))

        async def is_noted() -> bool:
            return bool(build_overview(await look(stricken)).refused)

        await until(is_noted)
        seen = await look(stricken)
        assert "EgressProxy/cluster" not in says_ready(build_overview(seen))
        ((evidence, command),) = find(seen, "writes-refused")
        assert "quota" in evidence
        assert "quota" in command
        assert all(f"HTTPS_PROXY={PROXY}" in environment(host, "kubelet") for host in hosts.values())
        await stricken.delete(QUOTAS, "none")
        for host in hosts.values():
            await has_proxy(host, OTHER)
        await has_condition(stricken, "WritesRefused", "False")

        async def is_noted_no_more() -> bool:
            # the lease is written when it is renewed
            return find(await look(stricken), "writes-refused") == []

        await until(is_noted_no_more)


async def test_an_admission_webhook_of_others_is_down(stricken: Cluster) -> None:
    """It refuses statuses and events: what stands there is old, and only the lease can say so."""
    hook = {
        "name": "everything.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/validate"},
        "rules": [
            {"apiGroups": ["transom.dev"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/status"]},
            {"apiGroups": ["", "events.k8s.io"], "apiVersions": ["*"], "operations": ["*"], "resources": ["events"]},
        ],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    async with story(stricken, terms=TERMS, pace=PACE) as told:
        await has_condition(stricken, "Ready", "True")
        assert says_ready(build_overview(await look(stricken))) == ["EgressProxy/cluster", "WindowsInstance/win-1"]
        await stricken.put(VALIDATING, "others", webhooks=[hook])
        try:
            await asyncio.sleep(1)
            told.host.faults.refuses = True
            await told.edit()

            async def is_noted() -> bool:
                refused = build_overview(await look(stricken)).refused
                return "windowsinstances.transom.dev/status" in refused and "egressproxies.transom.dev/status" in refused

            await until(is_noted)
            seen = await look(stricken)
            # the instance was not edited: its stored condition is Ready=True, of a host that refuses connections
            assert (await stricken.conditions("win-1"))["Ready"][0] == "True"
            assert says_ready(build_overview(seen)) == []
            ((evidence, _),) = find(seen, "writes-refused")
            assert "everything.example.com" in evidence
        finally:
            await stricken.delete(VALIDATING, "others")
        await stricken.until("win-1", Reachable="False")
        told.host.faults.refuses = False
        await told.followed()
        await until(lambda: not told.operator.rights.refused)
        await has_condition(stricken, "Ready", "True")


async def test_the_lease_is_deleted_and_then_a_strangers(stricken: Cluster) -> None:
    async with story(stricken, terms=TERMS, pace=PACE) as told:
        await stricken.delete(LEASES, "transom")
        await told.edit()
        # it may be a restore of etcd, and is treated as one: every store lists again; the event has both causes
        assert any("was deleted" in text for text in await stricken.told("transom", "ClusterRestored"))
        await until(lambda: told.operator.working)
        await told.followed()
        # whoever wrote this has no operator: nobody may take the lease for a year
        spec = {
            "holderIdentity": "stranger",
            "leaseDurationSeconds": 31_536_000,
            "renewTime": (datetime.now(UTC) - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "leaseTransitions": 7,
        }
        await stricken.merge(LEASES, "transom", {"spec": spec})
        await until(lambda: not told.operator.working)
        await stricken.proxy(httpProxy=PROXY, httpsProxy=PROXY)
        seen = await look(stricken, again=True)
        overview = build_overview(seen)
        assert overview.leader is not None
        assert (overview.leader.holder, overview.leader.working) == ("stranger", False)
        assert "EgressProxy/cluster" not in says_ready(overview)
        ((evidence, command),) = find(seen, "leader-missing")
        assert "31,536,000" in evidence
        assert command == f"kubectl delete lease transom -n {stricken.namespace}"
        assert changes(told.host) == 2
        await stricken.delete(LEASES, "transom")
        await has_proxy(told.host, PROXY)
        await stricken.until("win-1", Configured="True", ProxyApplied="True/Applied")
        assert changes(told.host) == 3


@pytest.mark.parametrize("how", ["junk", "deleted"])
async def test_the_record_of_rollouts_is_damaged(stricken: Cluster, how: str) -> None:
    hosts = await add_hosts(stricken, "win-1", "win-2", "win-3")
    await stricken.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with stricken.operator(controllers=CONTROLLERS, terms=TERMS, pace=PACE) as operator:
        for name in hosts:
            await stricken.until(name, Configured="True", ProxyApplied="True/Applied")
        before = {name: changes(host) for name, host in hosts.items()}
        for host in hosts.values():
            host.faults.disk_delay = 0.03
        await stricken.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await until(lambda: operator.controllers["hosts"].queue.working)
        junk = {"settings.0": "win-9@never @ @@ \u0000 win-1@2026-13-45", "x": "y " * 5000}
        if how == "deleted":
            await stricken.delete(CONFIG_MAPS, "transom-rollouts")
        else:
            await stricken.put(CONFIG_MAPS, "transom-rollouts", data=junk)
        for name, host in hosts.items():
            await has_proxy(host, OTHER)
            await stricken.until(name, Configured="True", ProxyApplied="True/Applied")
        assert {name: changes(host) - before[name] for name, host in hosts.items()} == dict.fromkeys(hosts, 1)
        await has_condition(stricken, "Ready", "True")
        assert not operator.rights.refused


@contextlib.asynccontextmanager
async def gated(cluster: Cluster, name: str, **options: Any) -> AsyncIterator[tuple[Operator, Gate]]:
    """An operator with a network of its own."""
    plane = cluster.control_plane
    async with gate_to(plane.url, plane.directory) as gate:
        connection = connect(str(plane.write_kubeconfig(f"{cluster.namespace}-{name}", plane.admin_token, server=gate.url)))
        async with cluster.operator(Client(connection), controllers=CONTROLLERS, terms=TERMS, pace=PACE, **options) as operator:
            yield operator, gate
        await connection.close()


async def test_the_leader_is_partitioned_in_the_middle_of_a_host(stricken: Cluster) -> None:
    """It stops within its lease; the other one goes on; the host has one writer at a time, and each change once."""
    (host,) = (await add_hosts(stricken, "win-1")).values()
    await stricken.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with gated(stricken, "one") as (first, partition):
        await until(lambda: first.working)
        async with gated(stricken, "two") as (second, _):
            await until(lambda: second.ready)
            await stricken.until("win-1", Configured="True", ProxyApplied="True/Applied")
            host.faults.disk_delay = 0.4
            await stricken.proxy(httpProxy=OTHER, httpsProxy=OTHER)
            await until(lambda: first.controllers["hosts"].queue.working)
            partition.stalled = True
            await until(lambda: second.working)
            assert not first.working, "two at a time"
            host.faults.disk_delay = 0.0
            await has_proxy(host, OTHER)
            await stricken.until("win-1", Configured="True", ProxyApplied="True/Applied")
            leader = build_overview(await look(stricken)).leader
            assert leader is not None
            assert (leader.holder, leader.working) == (second.identity, True)
            done = changes(host)
            written = len(partition.requests)
            partition.stalled = False
            await stricken.proxy(httpProxy=PROXY, httpsProxy=PROXY)
            await has_proxy(host, PROXY)
            await stricken.until("win-1", Configured="True", ProxyApplied="True/Applied")
            assert changes(host) == done + 1
            assert not first.working
            since = [item for item in partition.requests[written:] if not item.startswith(("GET", "WATCH"))]
            assert [item for item in since if "windowsinstances" in item or "egressproxies" in item] == []


async def test_the_ca_of_the_api_server_is_rotated(stricken: Cluster) -> None:
    """As in a pod: the file of the CA is replaced, and the process goes on without a restart."""
    plane = stricken.control_plane
    (host,) = (await add_hosts(stricken, "win-1")).values()
    await stricken.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    connection = connect(str(plane.write_kubeconfig("rotated", plane.admin_token)))
    async with stricken.operator(Client(connection), controllers=CONTROLLERS, terms=TERMS, pace=PACE) as operator:
        await stricken.until("win-1", Configured="True", ProxyApplied="True/Applied")
        await asyncio.to_thread(plane.rotate_authority)
        await until(lambda: operator.working)
        await stricken.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await has_proxy(host, OTHER)
        await stricken.until("win-1", Configured="True", ProxyApplied="True/Applied")
        assert changes(host) == 2
    await connection.close()


async def test_the_service_account_is_deleted(stricken: Cluster) -> None:
    """401: its token is worth nothing until the account, and a token, are there again."""
    plane, namespace = stricken.control_plane, stricken.namespace
    roles = [role for role in iter_roles(namespace, CONTROLLERS) if role["kind"] != "Namespace"]
    await asyncio.to_thread(plane.apply, roles)
    (host,) = (await add_hosts(stricken, "win-1")).values()
    await stricken.proxy(httpProxy=PROXY, httpsProxy=PROXY)

    async def write_token() -> str:
        token = await asyncio.to_thread(plane.create_service_account_token, namespace, "transom")
        return str(plane.write_kubeconfig(f"{namespace}-account", token))

    connection = connect(await write_token())
    options = Options(namespace=namespace, reflector=QUICK, workers=4, controllers=CONTROLLERS, pace=PACE, terms=TERMS)
    async with at_work(Operator(Client(connection), options)) as operator:
        await stricken.until("win-1", Configured="True", ProxyApplied="True/Applied")
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "transom", "namespace": namespace}}
        await asyncio.to_thread(plane.delete, [account])
        await until(lambda: not operator.working)
        await stricken.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        seen = await reports_no_leader(stricken)
        assert "EgressProxy/cluster" not in says_ready(build_overview(seen))
        assert changes(host) == 1
        await asyncio.to_thread(plane.apply, [account])
        await write_token()
        await has_proxy(host, OTHER)
        await stricken.until("win-1", Configured="True", ProxyApplied="True/Applied")
        assert changes(host) == 2
    await connection.close()
    await asyncio.to_thread(plane.delete, roles)


@pytest.mark.parametrize("kind", ["egressproxies", "windowsinstances"])
async def test_a_definition_goes_with_its_objects(stricken: Cluster, kind: str) -> None:
    plane = stricken.control_plane
    async with story(stricken, terms=TERMS, pace=PACE) as told:
        await stricken.client.delete(DEFINITIONS, f"{kind}.transom.dev")
        try:
            informers = told.operator.informers
            await until(
                lambda: not informers.is_settings_kind_served if kind == "egressproxies" else not informers.windows_instances
            )

            async def is_undefined() -> bool:
                return bool((await look(stricken)).undefined)

            await until(is_undefined)
            seen = await look(stricken)
            ((_, command),) = find(seen, "definitions-missing")
            assert "--part crds" in command
            if kind == "windowsinstances":

                async def counts_no_host() -> bool:
                    rollout = build_overview(await look(stricken)).rollout
                    return rollout is not None and rollout.total == 0

                await until(counts_no_host)
            assert f"HTTPS_PROXY={PROXY}" in environment(told.host, "kubelet")
            assert changes(told.host) == 1
        finally:
            await asyncio.to_thread(plane.run_kubectl, "wait", "--for=delete", f"crd/{kind}.transom.dev", "--timeout=60s")
            await asyncio.to_thread(plane.define, build_crds())
            await asyncio.to_thread(plane.wait_readable, build_crds())
        await stricken.instance("win-1", told.host)
        await told.edit()
        await told.followed()


async def test_the_namespace_is_being_deleted(stricken: Cluster) -> None:
    """Nothing can be created in it: status and doctor say so, and no host is changed."""
    async with story(stricken, terms=TERMS, pace=PACE) as told:
        await stricken.client.delete(NAMESPACES, stricken.namespace)
        await until(told.idle)
        seen = await look(stricken)
        overview = build_overview(seen)
        assert "being deleted" in overview.terminating
        assert any("nothing can be created" in evidence for evidence, _ in find(seen, "deletion-waits"))
        assert changes(told.host) == 1


PAGES = {
    "html": lambda: web.Response(text="<html>sign in</html>", content_type="text/html"),
    "json": lambda: web.json_response({"status": "ok"}),
    "empty": lambda: web.json_response({}),
}
"""What a load balancer or a login page answers with 200 in the API server's place."""


@pytest.mark.parametrize("page", PAGES)
async def test_something_else_answers_in_the_servers_place(stricken: Cluster, page: str) -> None:
    """What it says is no list of nothing, and no lease of nobody."""
    async with story(stricken, terms=TERMS, pace=PACE) as told:
        told.gate.answer = lambda _: PAGES[page]()
        told.operator.informers.restart_listing()
        told.gate.cut()
        await until(lambda: not told.operator.working)
        await asyncio.sleep(1)
        assert len(told.operator.informers.windows_instances) == 1
        assert told.operator.settings.own is not None
        assert not told.operator.working, "no lease of nobody was taken"
        assert changes(told.host) == 1
        told.gate.answer = lambda _: None
        await told.edit()
        await told.followed()
        assert told.operator.restores == 0


async def test_the_api_server_is_slow(stricken: Cluster) -> None:
    """As long as the lease is renewed in time work goes on; slower than that nobody leads, and it is said."""
    async with story(stricken, terms=LeaseTimings(duration=6, renew=3.0, retry=0.3, request=2.0), pace=PACE) as told:
        told.gate.delay_all = 0.5
        await told.edit()
        await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(told.host, "kubelet"))
        assert told.operator.working
        told.gate.delay_all = 2.5
        await until(lambda: not told.operator.working)
        await reports_no_leader(stricken)
        told.gate.delay_all = 0.0
        await told.followed()


@pytest.mark.parametrize("hours", [-5, 3])
async def test_the_clock_of_a_replica_is_wrong(stricken: Cluster, hours: int) -> None:
    """Who leads is decided, and reported, by whether the lease is renewed, whatever time it names."""
    (host,) = (await add_hosts(stricken, "win-1")).values()
    await stricken.proxy(httpProxy=PROXY, httpsProxy=PROXY)

    def wrong() -> datetime:
        return datetime.now(UTC) + timedelta(hours=hours)

    async with gated(stricken, "right"):
        await stricken.until("win-1", Configured="True", ProxyApplied="True/Applied")
        async with gated(stricken, "wrong", now=wrong) as (second, _):
            await until(lambda: second.ready)
            await asyncio.sleep(1)
            assert not second.working, "the lease is held"
    async with gated(stricken, "wrong", now=wrong) as (second, _):
        await until(lambda: second.working)
        await stricken.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await has_proxy(host, OTHER)
        await stricken.until("win-1", Configured="True", ProxyApplied="True/Applied")
        seen = await look(stricken, again=True)
        leader = build_overview(seen).leader
        assert leader is not None
        assert leader.working
        assert find(seen, "leader-missing") == []
    seen = await look(stricken, again=True)
    stopped = build_overview(seen).leader
    assert stopped is not None
    assert not stopped.working


async def test_an_edit_that_is_invalid_comes_in_the_middle_of_a_rollout(stricken: Cluster) -> None:
    hosts = await add_hosts(stricken, "win-1", "win-2", "win-3")
    await stricken.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    async with stricken.operator(controllers=CONTROLLERS, terms=TERMS, pace=PACE) as operator:
        for name in hosts:
            await stricken.until(name, Configured="True", ProxyApplied="True/Applied")
        for host in hosts.values():
            host.faults.disk_delay = 0.03
        await stricken.proxy(httpProxy=OTHER, httpsProxy=OTHER)
        await until(lambda: operator.controllers["hosts"].queue.working)
        await stricken.proxy(httpProxy=PROXY, httpsProxy=PROXY, trustedCA={"name": "missing"})
        await has_condition(stricken, "TrustBundleValid", "False")
        # the last valid settings reach every host, and are what the numbers count
        for host in hosts.values():
            await has_proxy(host, OTHER)
        assert "EgressProxy/cluster" not in says_ready(build_overview(await look(stricken)))
        await stricken.proxy(httpProxy=PROXY, httpsProxy=PROXY)
        for name, host in hosts.items():
            await has_proxy(host, PROXY)
            await stricken.until(name, Configured="True", ProxyApplied="True/Applied")
        await has_condition(stricken, "Ready", "True")
