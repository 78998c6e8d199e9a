"""Requests to a real API server: what it refuses, what it asks to wait for, and what may not be sent any more."""

import asyncio
from datetime import datetime
from typing import Any

import pytest
from lab.control_plane import ControlPlane
from tests.support.waiting import until

from transom.kube import client
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import Conflict, ConnectionFailed, NotFound, ResponseTooLarge
from transom.kube.lease import LeaseLost
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, NAMESPACES

pytestmark = pytest.mark.lab


def config_map(name: str, namespace: str = "default", **data: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_one_object_from_its_making_to_its_end(direct: Client) -> None:
    made = await direct.create(CONFIG_MAPS, config_map("life", a="1"), "default")
    assert made.value["data"] == {"a": "1"}
    with pytest.raises(Conflict, match=r'configmaps "life" already exists') as refused:
        await direct.create(CONFIG_MAPS, config_map("life"), "default")
    assert (refused.value.code, refused.value.reason) == (409, "AlreadyExists")
    patched = await direct.patch(CONFIG_MAPS, {"data": {"b": "2"}}, "life", "default")
    assert patched.value["data"] == {"a": "1", "b": "2"}
    with pytest.raises(Conflict):
        stale = config_map("life", c="3") | {"metadata": {"name": "life", "resourceVersion": made.metadata.resource_version}}
        await direct.replace(CONFIG_MAPS, stale, "life", "default")
    with pytest.raises(Conflict):
        await direct.delete(CONFIG_MAPS, "life", "default", uid="another")
    await direct.delete(CONFIG_MAPS, "life", "default", uid=made.metadata.uid)
    with pytest.raises(NotFound, match=r'configmaps "life" not found'):
        await direct.get(CONFIG_MAPS, "life", "default")


async def test_a_kind_that_is_not_there_is_not_found(direct: Client) -> None:
    with pytest.raises(NotFound):
        await direct.list_objects(EGRESS_PROXIES)


async def test_a_write_is_only_sent_while_it_is_permitted(control_plane: ControlPlane, direct: Client) -> None:
    left = [5.0, 5.0]

    def permit() -> float:
        if not left:
            raise LeaseLost("over")
        return left.pop()

    before = control_plane.get_moment()
    guarded = direct.with_permit(permit)
    await guarded.create(CONFIG_MAPS, config_map("guarded"), "default")
    await guarded.delete(CONFIG_MAPS, "guarded", "default")
    with pytest.raises(LeaseLost):
        await guarded.create(CONFIG_MAPS, config_map("guarded"), "default")
    with pytest.raises(NotFound):
        await guarded.get(CONFIG_MAPS, "guarded", "default")
    asked = [entry["verb"] for entry in control_plane.read_audit(before) if entry["userAgent"] == "transom"]
    assert asked == ["create", "delete", "get"]


async def test_a_write_lasts_no_longer_than_its_permit(control_plane: ControlPlane) -> None:
    """A server that does not answer must not carry the write past the end of the lease."""
    listener = await asyncio.start_server(lambda reader, writer: asyncio.sleep(60), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    connection = connect(str(control_plane.write_kubeconfig("nowhere", "hunter2", server=f"http://127.0.0.1:{port}")))
    try:
        with pytest.raises(ConnectionFailed, match="no answer in time"):
            await Client(connection, lambda: 0.2).delete(CONFIG_MAPS, "a", "default")
    finally:
        await connection.close()
        listener.close()


async def test_too_many_requests_are_asked_again_when_the_server_says(control_plane: ControlPlane, direct: Client) -> None:
    """An eviction is refused with 429 and `Retry-After: 10` while nobody has counted the pods of its disruption budget."""
    labels = {"app": "guarded"}
    containers = [{"name": "c", "image": "registry.example/none"}]
    metadata = {"name": "guarded", "namespace": "default", "labels": labels}
    control_plane.apply(
        [
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "none", "containers": containers}},
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "guarded", "namespace": "default"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
            },
        ]
    )
    control_plane.run_kubectl("patch", "pod", "guarded", "--subresource=status", "-p", '{"status": {"phase": "Running"}}')

    def evictions() -> list[dict[str, Any]]:
        return [
            entry for entry in control_plane.read_audit() if entry["requestURI"].split("?")[0].endswith("/guarded/eviction")
        ]

    path = "/api/v1/namespaces/default/pods/guarded/eviction"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "guarded", "namespace": "default"}}
    with pytest.raises(ConnectionFailed, match="no answer in time"):
        await direct.request("POST", path, None, eviction, seconds=1)
    assert len(evictions()) == 1
    pending = asyncio.create_task(direct.request("POST", path, None, eviction))
    await until(lambda: len(evictions()) == 2)
    await asyncio.to_thread(control_plane.run_kubectl, "delete", "pdb", "guarded")
    await pending
    codes = [entry["responseStatus"]["code"] for entry in evictions()]
    assert codes == [429, 429, 201]
    first, second = (datetime.fromisoformat(entry["requestReceivedTimestamp"]) for entry in evictions()[1:])
    assert (second - first).total_seconds() >= 10, "it did not wait as it was told to"


async def test_a_list_of_large_objects_comes_in_smaller_pages(
    control_plane: ControlPlane, direct: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's hundred objects of a megabyte are no page of a hundred megabytes."""
    monkeypatch.setattr(client, "_MAX_PAGE", 4 << 20)
    await direct.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "pages"}})
    for number in range(8):
        await direct.create(CONFIG_MAPS, config_map(f"a-small-{number}", "pages"), "pages")
    for number in range(12):
        await direct.create(CONFIG_MAPS, config_map(f"large-{number:02}", "pages", text="x" * 1_000_000), "pages")
    since = control_plane.get_moment()
    listing = await direct.list_objects(CONFIG_MAPS, "pages", page_size=8)
    names = {f"large-{number:02}" for number in range(12)} | {f"a-small-{number}" for number in range(8)}
    assert sorted(item.metadata.name for item in listing.items) == sorted(names)
    limits = [entry["requestURI"].split("limit=")[1] for entry in control_plane.read_audit(since) if entry["verb"] == "list"]
    assert [limit.split("&")[0] for limit in limits][:3] == ["8", "8", "2"]
    for name in names:
        await direct.delete(CONFIG_MAPS, name, "pages")
    # one that is too large by itself is named
    monkeypatch.setattr(client, "_MAX_PAGE", 100)
    with pytest.raises(ResponseTooLarge, match="more than 100 bytes"):
        await direct.list_objects(CONFIG_MAPS, "kube-system")
