"""The admission server follows Services only while the settings give their names to pods."""

import asyncio
import base64
import contextlib
import functools
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.entry_points.api_server import StrangersApiServer, serve_strangers
from tests.pods.table import NETWORKS, OWN
from tests.support.waiting import until
from tests.webhook.caller import of, reviewed

from transom.kube.backoff import Backoff
from transom.kube.client import Client
from transom.kube.memory_limits import BOUNDS, MemoryLimit
from transom.kube.reflector import ReflectorTimings
from transom.kube.resources import EGRESS_PROXIES, SECRETS
from transom.webhook.certificates import compute_next_secret
from transom.webhook.service_name_watcher import NAMED_SERVICES, ServiceNameWatcher
from transom.webhook.webhook import Webhook, WebhookOptions

PATH = NAMED_SERVICES.build_path()
PACE = ReflectorTimings(backoff=Backoff(0.01, 0.05), absent=Backoff(0.01, 0.05))


def service(namespace: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "8"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def serve(server: StrangersApiServer, *services: dict[str, Any]) -> None:
    server.objects[PATH] = [msgspec.json.encode(item) for item in services]


def send(server: StrangersApiServer, kind: str, value: dict[str, Any]) -> None:
    server.send(PATH, msgspec.json.encode({"type": kind, "object": value}) + b"\n")


class Bench:
    """Services that are followed, with a note of each call."""

    def __init__(self, server: StrangersApiServer, client: Client) -> None:
        self.server = server
        self.changed: list[str] = []
        self.decided = 0
        self.services = ServiceNameWatcher(client, self.changed.append, self._count, PACE)

    def _count(self) -> None:
        self.decided += 1


@contextlib.asynccontextmanager
async def following(directory: Path) -> AsyncIterator[Bench]:
    async with serve_strangers(directory) as (server, client):
        bench = Bench(server, client)
        running = asyncio.create_task(bench.services.run())
        try:
            yield bench
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_nothing_is_read_while_nobody_needs_it(tmp_path: Path) -> None:
    async with following(tmp_path) as bench:
        serve(bench.server, service("shop", "web"))
        await asyncio.sleep(0.05)
        assert not bench.server.is_watched(PATH)
        assert (bench.services.reflector.lists, bench.services.list_unread_kinds()) == (0, [])
        bench.services.set_watch_needed(needed=True)
        assert bench.services.list_unread_kinds() == ["Service"]
        await until(lambda: bench.decided == 1)
        assert bench.services.list_names("shop") == {"web"}
        await until(lambda: bench.server.is_watched(PATH))
        bench.services.set_watch_needed(needed=False)
        await until(lambda: not bench.services.decided)
        assert bench.services.list_names("shop") == frozenset()


async def test_what_is_made_changed_and_deleted(tmp_path: Path) -> None:
    async with following(tmp_path) as bench:
        outside = service("shop", "outside", type="ExternalName", externalName="api.example.com")
        serve(bench.server, service("shop", "web"), service("shop", "headless", clusterIP="None"), outside)
        bench.services.set_watch_needed(needed=True)
        await until(lambda: bench.server.is_watched(PATH))
        assert bench.services.list_names("shop") == {"web", "headless"}
        bench.changed.clear()
        send(bench.server, "ADDED", service("shop", "db"))
        send(bench.server, "MODIFIED", service("shop", "outside", type="ClusterIP"))
        await until(lambda: bench.services.list_names("shop") == {"web", "headless", "db", "outside"})
        assert bench.changed == ["shop", "shop"]
        send(bench.server, "MODIFIED", service("shop", "web", type="ExternalName"))
        send(bench.server, "DELETED", service("shop", "db"))
        send(bench.server, "ADDED", service("other", "web"))
        # of a Service whose name stays, nobody hears
        send(bench.server, "MODIFIED", service("other", "web", clusterIP="10.0.0.9"))
        send(bench.server, "ADDED", service("last", "web"))
        await until(lambda: bench.services.list_names("last") == {"web"})
        assert bench.services.list_names("shop") == {"headless", "outside"}
        assert bench.changed == ["shop", "shop", "shop", "shop", "other", "last"]


async def test_a_refusal_is_known_and_heals(tmp_path: Path) -> None:
    async with following(tmp_path) as bench:
        status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "services is forbidden"}
        bench.server.answers[PATH] = lambda _: web.json_response(status, status=403)
        bench.services.set_watch_needed(needed=True)
        await until(lambda: bench.decided == 1)
        assert "services is forbidden" in bench.services.fault
        assert bench.services.list_names("shop") == frozenset()
        serve(bench.server, service("shop", "web"))
        del bench.server.answers[PATH]
        await until(lambda: bench.services.list_names("shop") == {"web"})
        assert bench.services.fault == ""


@functools.cache
def shared_secret() -> bytes:
    """What the replicas share, as the leader has written it."""
    held = compute_next_secret(None, ("127.0.0.1",), datetime.now(UTC), None)
    data = {name: base64.b64encode(item.reveal().encode()).decode() for name, item in held.to_data().items()}
    return msgspec.json.encode({"metadata": {"name": "transom-webhook", "namespace": OWN}, "data": data})


def settings(names: str | None, proxy: str = "http://proxy.corp.example:3128") -> dict[str, Any]:
    pods = {"pods": {"serviceNames": names}} if names else {}
    spec = {"httpProxy": proxy, "noProxy": ".corp.example", "networks": NETWORKS, **pods}
    metadata = {"name": "cluster", "uid": "e", "resourceVersion": "7"}
    return {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": metadata, "spec": spec}


@contextlib.asynccontextmanager
async def answering(directory: Path, names: str | None) -> AsyncIterator[tuple[StrangersApiServer, Webhook]]:
    """A replica before a server that has settings and Services."""
    async with serve_strangers(directory) as (server, client):
        server.objects[SECRETS.build_path(OWN)] = [shared_secret()]
        server.objects[EGRESS_PROXIES.build_path()] = [msgspec.json.encode(settings(names))]
        serve(server, service("shop", "web"), service("shop", "redis"), service("team-a", "api"))
        webhook = Webhook(client, WebhookOptions(OWN, "https://127.0.0.1:1", drain=0, reflector=PACE))
        stop = asyncio.Event()
        running = asyncio.create_task(webhook.run(stop, ("127.0.0.1", 0)))
        try:
            yield server, webhook
        finally:
            stop.set()
            await running


def create_pod(webhook: Webhook, namespace: str) -> tuple[list[str], list[str]]:
    """Return the end of NO_PROXY that a new pod of a namespace gets, after the address of the API server, and the warnings."""
    body = of(reviewed(namespace=namespace, object={"spec": {"containers": [{"name": "app"}]}}))
    response = msgspec.json.decode(webhook._answer_review(body, "/pods"))["response"]
    patch = msgspec.json.decode(base64.b64decode(response.get("patch", "W10=")))
    values = {item["name"]: item["value"] for step in patch if step["path"].endswith("/env") for item in step["value"]}
    items = values["NO_PROXY"].split(",") if "NO_PROXY" in values else []
    assert values.get("NO_PROXY") == values.get("no_proxy")
    return items[items.index("kubernetes") + 1 :] if items else [], response.get("warnings", [])


async def test_pods_get_the_names_of_their_namespace(tmp_path: Path) -> None:
    async with answering(tmp_path, "Add") as (server, webhook):
        await until(lambda: webhook.ready)
        assert create_pod(webhook, "team-a") == (["api", "api.team-a"], [])
        assert create_pod(webhook, "nowhere") == ([], [])
        # the namespace has the name of a public domain
        items, (warning,) = create_pod(webhook, "shop")
        assert items == ["redis", "web"]
        assert "redis.shop, web.shop" in warning
        await until(lambda: server.is_watched(PATH))
        send(server, "ADDED", service("team-a", "loki"))
        await until(lambda: create_pod(webhook, "team-a")[0] == ["api", "loki", "api.team-a", "loki.team-a"])
        send(server, "DELETED", service("team-a", "api"))
        await until(lambda: create_pod(webhook, "team-a")[0] == ["loki", "loki.team-a"])


async def test_without_the_option_no_service_is_read(tmp_path: Path) -> None:
    async with answering(tmp_path, None) as (server, webhook):
        await until(lambda: webhook.ready)
        assert create_pod(webhook, "team-a") == ([], [])
        assert not server.is_watched(PATH)
        assert webhook._services.reflector.lists == 0


async def test_the_option_is_switched_while_pods_are_created(tmp_path: Path) -> None:
    """No pod gets the new settings without the names."""
    async with answering(tmp_path, None) as (server, webhook):
        await until(lambda: webhook.ready)
        path = EGRESS_PROXIES.build_path()
        await until(lambda: server.is_watched(path))
        listed = asyncio.Event()

        async def list_late(request: web.BaseRequest) -> web.StreamResponse:
            await listed.wait()
            return await (server._watch if request.query.get("watch") else server._list)(request, PATH)

        server.answers[PATH] = list_late
        changed = settings("Add", "http://other.corp.example:3128")
        changed["metadata"]["resourceVersion"] = "8"
        server.send(path, msgspec.json.encode({"type": "MODIFIED", "object": changed}) + b"\n")
        await until(lambda: webhook._services.list_unread_kinds() == ["Service"])
        assert create_pod(webhook, "team-a") == ([], [])
        assert not webhook.egress.service_names  # type: ignore[union-attr]
        listed.set()
        await until(lambda: webhook.egress is not None and webhook.egress.service_names)
        assert create_pod(webhook, "team-a")[0] == ["api", "api.team-a"]


@pytest.mark.parametrize("count", [70, 200])
async def test_many_namespaces_keep_little(tmp_path: Path, count: int) -> None:
    async with answering(tmp_path, "Add") as (_, webhook):
        await until(lambda: webhook.ready)
        for number in range(count):
            create_pod(webhook, f"team-{number}")
        create_pod(webhook, "team-a")
        assert len(webhook._namespace_patchers) == 64
        assert create_pod(webhook, "team-a")[0] == ["api", "api.team-a"]


async def test_services_that_may_not_be_read(tmp_path: Path) -> None:
    """Pods start with the list that they would have without the option, and a warning."""
    async with answering(tmp_path, None) as (server, webhook):
        await until(lambda: webhook.ready)
        status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "services is forbidden"}
        server.answers[PATH] = lambda _: web.json_response(status, status=403)
        changed = settings("Add")
        changed["metadata"]["resourceVersion"] = "8"
        await until(lambda: server.is_watched(EGRESS_PROXIES.build_path()))
        server.send(EGRESS_PROXIES.build_path(), msgspec.json.encode({"type": "MODIFIED", "object": changed}) + b"\n")
        await until(lambda: webhook.egress is not None and webhook.egress.service_names)
        items, (warning,) = create_pod(webhook, "team-a")
        assert items == []
        assert "services is forbidden" in warning
        del server.answers[PATH]
        await until(lambda: create_pod(webhook, "team-a") == (["api", "api.team-a"], []))


async def test_more_services_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = {**BOUNDS, ("", "Service", "NamedService"): MemoryLimit(2_000, 1_500)}
    monkeypatch.setattr("transom.kube.memory_limits.BOUNDS", bounds)
    async with answering(tmp_path, "Add") as (_, webhook):
        await until(lambda: webhook.ready)
        # the third in the list has no room
        items, warnings = create_pod(webhook, "team-a")
        assert items == []
        assert any("more Services than" in warning for warning in warnings)
