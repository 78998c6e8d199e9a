"""A real control plane with the roles of the admission server, and replicas of it that the API server calls by URL."""

import asyncio
import base64
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from lab.control_plane import ControlPlane
from lab.ports import reserve
from tests.pods.table import NAMESPACES, OWN, decoded, objects
from tests.support.operator.clusters import QUICK

from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import NotFound
from transom.kube.lease import LeaseTimings
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, LEASES, REGISTRATIONS, SECRETS, Resource
from transom.kube.transport import Request
from transom.pods.environment import CONFIG_MAP, LEDGER, SECRET, PodEgress
from transom.pods.patch import build_patch
from transom.webhook.webhook import Webhook, WebhookOptions

PODS = Resource("", "v1", "Pod", "pods", True, UnstructuredObject)
TERMS = LeaseTimings(duration=40, renew=20, retry=0.2, request=10)
_SETTINGS: dict[str, Resource[Any]] = {"EgressProxy": EGRESS_PROXIES, "Secret": SECRETS, "ConfigMap": CONFIG_MAPS}
PROBED = "team-a"
"""A namespace that every selector of the table selects."""


class Admission:
    """The cluster, as an administrator sees it."""

    def __init__(self, control_plane: ControlPlane, client: Client) -> None:
        self.control_plane, self.client = control_plane, client
        self.namespace = OWN

    async def settings(self, name: str) -> None:
        """Settings of the table; those that were there go, where these are none."""
        wanted = objects(name)
        if not wanted:
            await self.delete(EGRESS_PROXIES, "cluster")
        for value in reversed(wanted):
            resource = _SETTINGS[value["kind"]]
            place = {"namespace": OWN} if resource.namespaced else {}
            await self.apply(resource, {**value, "metadata": {**value["metadata"], **place}})

    async def apply(self, resource: Resource[Any], value: dict[str, Any]) -> None:
        """Server-side apply, as kubectl would."""
        meta = value["metadata"]
        path = resource.build_path(meta.get("namespace"), meta["name"])
        query = {"fieldManager": "kubectl", "force": "true"}
        await self.client.request("PATCH", path, query, value, content_type="application/apply-patch+yaml")

    async def delete(self, resource: Resource[Any], name: str, namespace: str | None = None) -> None:
        with contextlib.suppress(NotFound):
            if resource is EGRESS_PROXIES:
                # an operator that worked here has gone
                await self.client.patch(resource, {"metadata": {"finalizers": None}}, name)
            await self.client.delete(resource, name, namespace)

    async def has_secret(self, *namespaces: str) -> None:
        """Say, as `transom run` would, which namespaces have the Secret."""
        data = dict.fromkeys(namespaces, base64.b64encode(b"x").decode())
        value = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": LEDGER, "namespace": OWN}, "data": data}
        await self.apply(SECRETS, value)

    async def post(
        self, pod: dict[str, Any], namespace: str, *, dry_run: bool = False
    ) -> tuple[int, dict[str, Any], list[str]]:
        """Create a pod: the code, what the server answers, and its warnings."""
        query = {"dryRun": "All"} if dry_run else None
        asked = Request("POST", PODS.build_path(namespace), query, msgspec.json.encode(pod), "application/json")
        answer = await self.client.connection.transport.request(asked)
        return answer.status, msgspec.json.decode(answer.body), answer.headers.getall("Warning", [])

    async def remove(self, name: str, namespace: str) -> None:
        path = PODS.build_path(namespace, name)
        await self.client.request("DELETE", path, {"gracePeriodSeconds": "0"})

    async def probe(self, egress: PodEgress) -> bool:
        """Whether the API server asks, and hears these settings: seen by pods that are not kept."""
        for namespace in ("plain", "with-ca", "team-a", "team-c"):
            for pod in (plain_pod("probe"), plain_pod("probe", labels={"transom.dev/inject-ca": "true"})):
                code, answered, warnings = await self.post(pod, namespace, dry_run=True)
                made = build_patch(decoded(pod), namespace, NAMESPACES[namespace], egress)
                wanted = [
                    entry for operation in made.operations if operation.path.endswith("/env") for entry in operation.value
                ]
                if (
                    code != 201
                    or answered["spec"]["containers"][0].get("env", []) != wanted
                    or bool(made.warnings) > bool(warnings)
                ):
                    return False
        return True

    async def registration(self) -> dict[str, Any] | None:
        with contextlib.suppress(NotFound):
            return (await self.client.get(REGISTRATIONS, "transom")).value
        return None

    async def hash_key(self) -> bytes:
        """What the digests are keyed with."""
        held = await self.client.get(SECRETS, "transom-webhook", OWN)
        return base64.b64decode(held.value["data"]["hash.key"])

    @contextlib.asynccontextmanager
    async def replica(self, **options: Any) -> AsyncIterator[Webhook]:
        """A replica in this process, as the ServiceAccount of the manifests; a fault of its own fails the test."""
        token = await asyncio.to_thread(self.control_plane.create_service_account_token, OWN, "transom-webhook")
        connection = connect(str(self.control_plane.write_kubeconfig(f"webhook-{secrets.token_hex(4)}", token)))
        try:
            async with serving(Client(connection), OWN, **options) as webhook:
                yield webhook
        finally:
            await connection.close()

    async def clear(self) -> None:
        """As it was before anything ran here."""
        await self.delete(REGISTRATIONS, "transom")
        await self.delete(EGRESS_PROXIES, "cluster")
        for resource, name in ((SECRETS, "transom-webhook"), (SECRETS, LEDGER), (LEASES, "transom-webhook")):
            await self.delete(resource, name, OWN)
        for namespace in (*NAMESPACES, "default", OWN):
            await self.delete(SECRETS, SECRET, namespace)
            await self.delete(CONFIG_MAPS, CONFIG_MAP, namespace)
            await self.client.request("DELETE", PODS.build_path(namespace), {"gracePeriodSeconds": "0"})


@contextlib.asynccontextmanager
async def serving(
    client: Client,
    namespace: str,
    *,
    port: int | None = None,
    url: str | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    **options: Any,
) -> AsyncIterator[Webhook]:
    """`transom webhook` in this process, which the API server calls by URL; a fault of its own fails the test."""
    port = port or reserve()
    quick = {"drain": 0.0, "terms": TERMS, "reflector": QUICK}
    webhook = Webhook(client, WebhookOptions(namespace, url or f"https://127.0.0.1:{port}", **{**quick, **options}), now=now)
    stop = asyncio.Event()
    running = asyncio.create_task(webhook.run(stop, ("127.0.0.1", port)))
    try:
        yield webhook
    finally:
        stop.set()
        await running


def plain_pod(name: str, **metadata: Any) -> dict[str, Any]:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "app", "image": "registry.corp.example/x:1"}]},
    }
    decoded(pod)
    return pod
