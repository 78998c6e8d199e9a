"""`transom status` and `transom doctor` on a real API server with an operator: what the fake of tests/cli is held against."""

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.support import command as command_line
from tests.support.bundles import private_key
from tests.support.operator.clusters import PROXY, Cluster
from tests.support.pages import on_cluster
from tests.support.waiting import until
from tests.webhook.clusters import serving

from transom.cli.observation import list_status_queries
from transom.cli.status_watch import WatchedStatus
from transom.diagnosis.overview import Overview
from transom.kube.resources import EGRESS_PROXIES, NAMESPACES, SECRETS, WINDOWS_INSTANCES
from transom.manifests.admission import iter_admission_roles

pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True)
def environment(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.control_plane.kubeconfig))
    monkeypatch.setenv("TRANSOM_NAMESPACE", cluster.namespace)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield


async def run(*arguments: str) -> command_line.Ran:
    return await asyncio.to_thread(command_line.run, *arguments)


async def findings(cluster: Cluster) -> list[dict[str, str]]:
    return await told(cluster, "EgressProxy/cluster", "CustomResourceDefinition", "MutatingWebhook")


async def told(cluster: Cluster, *others: str) -> list[dict[str, str]]:
    """What is found of this test's own objects, and of others whose names have these parts: the server is shared."""
    ran = await run("doctor", "-o", "json")
    assert ran.code in (0, 1), ran.err
    assert ran.json["unread"] == []
    own = (f"/{cluster.namespace}/", *others)
    return [finding for finding in ran.json["findings"] if any(part in finding["object"] for part in own)]


async def test_nothing_looks_wrong_in_a_cluster_at_work_and_what_is_broken_is_found(cluster: Cluster) -> None:
    host = await cluster.simulator.add_host()
    await cluster.proxy(httpProxy=PROXY, httpsProxy=PROXY)
    await cluster.instance("win-1", host)
    assert "leader-missing" in [finding["id"] for finding in await findings(cluster)]
    async with cluster.operator():
        await cluster.wait_ready()
        await until_found(cluster, "NotRegistered")
        await asyncio.to_thread(cluster.control_plane.apply, list(iter_admission_roles(cluster.namespace)))
        async with serving(cluster.client, cluster.namespace):
            await until_found(cluster)
        status = (await run("status", "-o", "json")).json
        assert [(obj["name"], obj["ready"]) for obj in status["objects"]] == [("cluster", "True"), ("win-1", "True")]
        assert status["leader"]["working"] is True
        assert status["rollout"]["updated"] == 1
        story = (await run("status", "host", "win-1", "-o", "json")).json
        assert story["settings"]["current"] is True
        assert story["settings"]["httpProxy"] == PROXY
        assert story["changes"]["settings"] in ("passed", "over")
        await _follows(cluster)


async def until_found(cluster: Cluster, *reasons: str) -> None:
    """Wait until what is found has these reasons: the registration is looked at every now and then."""
    found: list[dict[str, str]] = []

    async def as_wanted() -> bool:
        found[:] = await findings(cluster)
        return [item["evidence"].partition(":")[0] for item in found] == list(reasons)

    try:
        await until(as_wanted)
    except AssertionError:
        raise AssertionError(f"wanted {reasons}, found {found}") from None


async def test_the_commands_of_newcomers_mend_what_they_are_for(cluster: Cluster, tmp_path: Path) -> None:
    """As they are printed, by a shell: the base has another name, and key and instance are where nobody looks."""
    elsewhere = f"{cluster.namespace}-elsewhere"
    for resource, name, fields, where in (
        (NAMESPACES, elsewhere, {}, None),
        (SECRETS, "key-of-win-2", {"stringData": {"private-key.pem": private_key()}}, elsewhere),
        (WINDOWS_INSTANCES, "win-2", {"spec": {"address": "127.0.0.1", "username": "u"}}, elsewhere),
        (EGRESS_PROXIES, "corp", {"spec": {"httpProxy": PROXY}}, None),
    ):
        value = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}} | fields
        await cluster.client.apply(resource, value, name, where, manager="kubectl")
    await cluster.instance("win-1", None, address="127.0.0.1", username="u", keySecret={"name": "key-of-win-2"})
    mended = []
    while found := [item for item in await told(cluster, elsewhere, "EgressProxy/corp") if item["id"] in NEWCOMERS]:
        first = found[0]
        assert first["id"] not in mended, first
        mended.append(first["id"])
        await on_cluster(tmp_path, cluster.control_plane, first["command"])
    assert mended == list(NEWCOMERS)
    copied = (await cluster.client.get(WINDOWS_INSTANCES, "win-2", cluster.namespace)).value["spec"]
    assert copied["address"] == "127.0.0.1"


NEWCOMERS = ("base-missing", "instance-elsewhere", "reference-elsewhere")


async def _follows(cluster: Cluster) -> None:
    """Each kind is listed once; then what changes is told by the server."""
    followed = WatchedStatus(cluster.client, list_status_queries(cluster.namespace, cluster.namespace, ""), cluster.namespace)
    tasks = [asyncio.create_task(reflector.run()) for reflector in followed.reflectors]
    try:
        await followed.wait_for_lists()
        assert ready(followed.build_overview(datetime.now(UTC))) == {"cluster": "True", "win-1": "True"}
        lists = [reflector.lists for reflector in followed.reflectors]
        await cluster.merge(WINDOWS_INSTANCES, "win-1", {"spec": {"paused": True}})

        async def is_paused() -> bool:
            return any(obj.reason == "Paused" for obj in followed.build_overview(datetime.now(UTC)).objects)

        await until(is_paused)
        assert [reflector.lists for reflector in followed.reflectors] == lists
        assert max(lists) == 1
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)


def ready(status: Overview) -> dict[str, Any]:
    return {obj.name: obj.ready for obj in status.objects}
