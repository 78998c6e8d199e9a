"""What goes wrong between the operator and its API server: nothing is lost, nothing is written twice, no loop runs hot."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from tests.support.operator.clusters import Cluster, environment
from tests.support.operator.stories import OTHER, changes, story
from tests.support.waiting import PATIENCE, until

from transom.kube.errors import NotFound
from transom.kube.resources import DEFINITIONS, EGRESS_PROXIES, SECRETS, WINDOWS_INSTANCES
from transom.manifests.definitions import build_crds

pytestmark = pytest.mark.lab


async def test_the_server_is_killed_and_started_again(cluster: Cluster) -> None:
    async with story(cluster) as told:
        cluster.control_plane.kill("kube-apiserver")
        await asyncio.sleep(0.5)
        await asyncio.to_thread(cluster.control_plane.start_apiserver)
        await told.edit()
        await told.followed()


async def test_watches_are_cut_in_the_middle_of_a_line(cluster: Cluster) -> None:
    async with story(cluster) as told:
        told.gate.cut_lines = True
        await told.edit()
        await asyncio.sleep(0.5)
        told.gate.cut_lines = False
        await told.followed()


async def test_what_was_not_seen_was_compacted_away(cluster: Cluster) -> None:
    """410: everything is listed again, and what is missing is gone."""
    gone = await cluster.simulator.add_host()
    async with story(cluster) as told:
        await cluster.instance("win-2", gone)
        await cluster.until("win-2", ProxyApplied="True/Applied")
        lists = sum(reflector.lists for reflector in told.operator.informers.reflectors)
        told.gate.answer = lambda request: web.Response(status=503)
        told.gate.cut()
        # as somebody who does not wait for the host
        await cluster.merge(WINDOWS_INSTANCES, "win-2", {"metadata": {"finalizers": None}})
        await cluster.delete(WINDOWS_INSTANCES, "win-2")
        # history is gone: from etcd, and with the restart from the server's own memory
        await asyncio.to_thread(cluster.control_plane.compact)
        await asyncio.to_thread(cluster.control_plane.restart_apiserver)
        told.gate.answer = lambda request: None
        await until(lambda: len(told.operator.informers.windows_instances) == 1)
        await told.edit()
        await told.followed()
        assert sum(reflector.lists for reflector in told.operator.informers.reflectors) > lists
        assert changes(gone) == 1


@pytest.mark.parametrize("code", [429, 500])
async def test_the_server_refuses_for_a_while(cluster: Cluster, code: int) -> None:
    headers = {"Retry-After": "1"} if code == 429 else {}
    async with story(cluster) as told:
        told.gate.answer = lambda request: web.Response(status=code, headers=headers, text="not now")
        told.gate.cut()
        asked = len(told.gate.requests)
        await told.edit()
        await asyncio.sleep(1.5)
        # each kind after its backoff, and the lease
        assert len(told.gate.requests) - asked < len(told.operator.informers.reflectors) * 8
        told.gate.answer = lambda request: None
        await told.followed()


async def test_statuses_cannot_be_written_for_a_while(cluster: Cluster) -> None:
    """The host is not changed again for the status's sake."""
    async with story(cluster) as told:
        told.gate.answer = lambda request: web.Response(status=500) if request.path.endswith("/status") else None
        await told.edit()
        await until(lambda: f"HTTPS_PROXY={OTHER}" in environment(told.host, "kubelet"))
        await until(lambda: sum(request.endswith("/status") for request in told.gate.requests) >= 3)
        told.gate.answer = lambda request: None
        await told.followed()


async def test_lists_are_slow(cluster: Cluster) -> None:
    async with story(cluster) as told:
        told.gate.delay = 0.7
        told.gate.cut()
        await told.edit()
        await told.followed()


async def test_a_secret_goes_in_the_middle_of_a_pass(cluster: Cluster) -> None:
    async with story(cluster) as told:
        told.host.faults.disk_delay = 0.02
        await told.edit()
        await until(lambda: told.operator.controllers["hosts"].queue.working)
        await cluster.delete(SECRETS, "cloud-private-key")
        await cluster.until("win-1", Configured="False/KeyMissing")
        assert changes(told.host) == 2
        connections = told.host.traffic.connections
        await cluster.put_key()
        await cluster.until("win-1", Configured="True", ProxyApplied="True/Applied")
        assert (changes(told.host), told.host.traffic.connections) == (2, connections + 1)


@pytest.mark.parametrize("days", [-400, 1, 4000])
async def test_the_clock_jumps(cluster: Cluster, days: int) -> None:
    ahead = timedelta()

    def now() -> datetime:
        return datetime.now(UTC) + ahead

    async with story(cluster, now=now) as told:
        ahead = timedelta(days=days)
        await told.edit()
        await told.followed()
        assert told.operator.working


async def test_the_definition_of_the_settings_goes(cluster: Cluster) -> None:
    """Nobody said that there is to be no proxy: hosts keep what they have."""
    async with story(cluster) as told:
        await cluster.client.delete(DEFINITIONS, "egressproxies.transom.dev")
        try:
            await until(lambda: not told.operator.informers.is_settings_kind_served)
            await cluster.merge(WINDOWS_INSTANCES, "win-1", {"metadata": {"annotations": {"touched": "yes"}}})
            before = told.host.traffic.connections
            await until(lambda: told.host.traffic.connections > before)
            await until(told.idle)
            assert changes(told.host) == 1
        finally:
            await define(cluster)
        await until(lambda: told.operator.informers.is_settings_kind_served)
        await told.edit()
        await told.followed()


async def test_the_definition_of_the_instances_goes(cluster: Cluster) -> None:
    """Nobody said that the hosts are to be given back: they keep what they have, and the deletion waits for nobody."""
    async with story(cluster) as told:
        await cluster.client.delete(DEFINITIONS, "windowsinstances.transom.dev")
        try:
            await until(lambda: not len(told.operator.informers.windows_instances))
            assert changes(told.host) == 1
        finally:
            await define(cluster)
        await cluster.instance("win-1", told.host)
        await told.edit()
        await told.followed()


async def test_objects_that_do_not_fit_the_schema(cluster: Cluster) -> None:
    """They were stored under an older definition: each has its own condition, the rest goes on."""
    async with story(cluster) as told:
        await define(cluster, lax=True)
        try:
            await cluster.instance("misfit", None, address=["10.0.0.7"], port="twenty-two")
            await cluster.put(EGRESS_PROXIES, "layer", spec={"httpProxy": 7})
        finally:
            await define(cluster)
        try:
            await cluster.until("misfit", Configured="False/InvalidSpec")
            await told.edit()
            await told.followed()
        finally:
            await cluster.delete(EGRESS_PROXIES, "layer")


async def define(cluster: Cluster, *, lax: bool = False) -> None:
    """The kinds, as they are or with a spec that takes anything, and until the server serves them so."""
    made = build_crds()
    for item in made:
        schema = item["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        if lax:
            schema["properties"]["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            schema.pop("x-kubernetes-validations", None)
        name = item["metadata"]["name"]
        await undefined(cluster, name)
        path = DEFINITIONS.build_path(None, name)
        query = {"fieldManager": "kubectl", "force": "true"}
        await cluster.client.request("PATCH", path, query, item, content_type="application/apply-patch+yaml")
        await asyncio.to_thread(
            cluster.control_plane.run_kubectl, "wait", "--for=condition=Established", "--timeout=180s", f"crd/{name}"
        )


async def undefined(cluster: Cluster, name: str) -> None:
    """Wait until a definition that is being deleted is gone."""
    with contextlib.suppress(NotFound):
        async with asyncio.timeout(PATIENCE):
            while (await cluster.client.get(DEFINITIONS, name)).metadata.deletion_timestamp is not None:
                await asyncio.sleep(0.1)


async def test_the_operator_is_there_before_the_definitions(cluster: Cluster) -> None:
    """Hosts are left alone until somebody can say what they are to be like."""
    for kind in ("egressproxies", "windowsinstances"):
        await cluster.client.delete(DEFINITIONS, f"{kind}.transom.dev")
    host = await cluster.simulator.add_host()
    try:
        async with cluster.operator() as operator:
            await until(lambda: operator.ready)
            await define(cluster)
            await cluster.instance("win-1", host)
            await cluster.until("win-1", ProxyApplied="True/NotConfigured")
            await cluster.proxy(httpProxy=OTHER, httpsProxy=OTHER)
            await cluster.until("win-1", ProxyApplied="True/Applied")
            assert f"HTTPS_PROXY={OTHER}" in environment(host, "kubelet")
    finally:
        await define(cluster)
