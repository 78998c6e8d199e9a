"""A namespace of a real API server with its own operator's objects, and simulated hosts behind real SSH servers."""

import asyncio
import base64
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncssh
from lab.control_plane import ControlPlane
from tests.support.waiting import PATIENCE, until

from transom.controllers.operator import Operator, Options
from transom.controllers.runtime.options import HostTimings
from transom.kube.backoff import Backoff
from transom.kube.client import Client
from transom.kube.connection import connect
from transom.kube.errors import NotFound, StatusError
from transom.kube.objects import UnstructuredObject
from transom.kube.reflector import ReflectorTimings
from transom.kube.resources import CONFIG_MAPS, EGRESS_PROXIES, NAMESPACES, NODES, SECRETS, WINDOWS_INSTANCES, Resource
from transom.windows.host.queries import SERVICES
from winsim import Host, Simulator

PASSWORD = "hunter2%^&!x"
PROXY = "http://proxy.corp.example:3128"
# some twenty kinds are absent in most tests: asked for at 0.4 s they were 100 requests a second of each operator
QUICK = ReflectorTimings(backoff=Backoff(0.05, 0.4), absent=Backoff(1.0, 4.0), watch=60, inactivity=20.0, least=0.05)
WHOLE_EVENTS = Resource("", "v1", "Event", "events", True, UnstructuredObject)
QUOTAS = Resource("", "v1", "ResourceQuota", "resourcequotas", True, UnstructuredObject)
_NUMBERS = itertools.count(1)
_ADDRESSES = itertools.count(1)


class Cluster:
    """One namespace, as an administrator sees it."""

    def __init__(self, control_plane: ControlPlane, client: Client, simulator: Simulator) -> None:
        self.control_plane, self.client, self.simulator = control_plane, client, simulator
        self.namespace = f"transom-{next(_NUMBERS)}"
        self.began = control_plane.get_moment()
        """What was asked of the server before is of other tests."""

    async def prepare(self) -> None:
        await self.client.create(NAMESPACES, _object(NAMESPACES, self.namespace))
        await self.put_key()

    @staticmethod
    def free_address() -> str:
        """A loopback address that no other host of these tests has: Nodes are told apart by theirs."""
        number = next(_ADDRESSES)
        return f"127.77.{number // 250}.{number % 250 + 1}"

    async def put_key(self, text: str | None = None) -> None:
        key = text or self.simulator.client_key.export_private_key().decode()
        await self.put(SECRETS, "cloud-private-key", data={"private-key.pem": base64.b64encode(key.encode()).decode()})

    async def put(self, resource: Resource[Any], name: str, **fields: Any) -> None:
        """Server-side apply, as another manager would."""
        namespace = self.namespace if resource.namespaced else None
        path = resource.build_path(namespace, name)
        query = {"fieldManager": "kubectl", "force": "true"}
        value = _object(resource, name, namespace) | fields
        await self.client.request("PATCH", path, query, value, content_type="application/apply-patch+yaml")

    async def merge(self, resource: Resource[Any], name: str, value: dict[str, Any], subresource: str | None = None) -> None:
        namespace = self.namespace if resource.namespaced else None
        path = resource.build_path(namespace, name, subresource)
        await self.client.request("PATCH", path, None, value, content_type="application/merge-patch+json")

    async def delete(self, resource: Resource[Any], name: str) -> None:
        with contextlib.suppress(NotFound):
            await self.client.delete(resource, name, self.namespace if resource.namespaced else None)

    async def leave(self) -> None:
        """Take away what a command that reads the whole cluster would find after this test."""
        await self.delete(EGRESS_PROXIES, "cluster")
        # no operator gives hosts back here
        with contextlib.suppress(NotFound):
            await self.merge(EGRESS_PROXIES, "cluster", {"metadata": {"finalizers": None}})
        for held in (await self.client.list_objects(WINDOWS_INSTANCES, self.namespace)).items:
            if held.metadata.finalizers:
                await self.merge(WINDOWS_INSTANCES, held.metadata.name, {"metadata": {"finalizers": None}})
        await self.client.request("DELETE", WINDOWS_INSTANCES.build_path(self.namespace))
        # a Node at an address of a later test's host would be that host's
        await self.client.request("DELETE", NODES.build_path())

    async def gone(self, name: str, seconds: float = PATIENCE) -> None:
        """Wait until a WindowsInstance is gone."""

        async def is_gone() -> bool:
            try:
                await self.client.get(WINDOWS_INSTANCES, name, self.namespace)
            except NotFound:
                return True
            return False

        try:
            await until(is_gone, seconds)
        except AssertionError:
            raise AssertionError(f"{name}: {await self.status(name)}") from None

    async def proxy(self, **spec: Any) -> None:
        await self.put(EGRESS_PROXIES, "cluster", spec=spec)

    async def forbid_config_maps(self) -> None:
        """Create a ResourceQuota `none` that admits no new ConfigMap; no controller writes its status here."""
        hard = {"count/configmaps": "0"}
        await self.put(QUOTAS, "none", spec={"hard": hard})
        await self.merge(QUOTAS, "none", {"status": {"hard": hard, "used": hard}}, "status")
        await until(self._refuses_config_maps)

    async def _refuses_config_maps(self) -> bool:
        """Return True once the server's admission plugin knows the quota."""
        value = _object(CONFIG_MAPS, "probe", self.namespace)
        try:
            await self.client.request("POST", CONFIG_MAPS.build_path(self.namespace), {"dryRun": "All"}, value)
        except StatusError as error:
            return "quota" in str(error)
        return False

    async def bundle(self, pem: str, name: str = "corp-ca") -> None:
        await self.put(CONFIG_MAPS, name, data={"ca-bundle.crt": pem})

    async def instance(self, name: str, host: Host | None, **spec: Any) -> None:
        place = {"address": host.address, "port": host.port, "username": host.username} if host else {}
        await self.put(WINDOWS_INSTANCES, name, spec={**place, **spec})

    async def status(self, name: str) -> dict[str, Any]:
        held = (await self.client.get(WINDOWS_INSTANCES, name, self.namespace)).value
        return dict(held.get("status") or {})

    async def conditions(self, name: str) -> dict[str, tuple[str, str]]:
        return {
            condition["type"]: (condition["status"], condition["reason"])
            for condition in (await self.status(name)).get("conditions", ())
        }

    async def events(self, name: str, namespace: str | None = None, uid: str | None = None) -> list[tuple[str, str, str]]:
        """What was told of an object; with `uid` of this one alone: all tests of a server have an EgressProxy/cluster."""
        found = await self.client.list_objects(WHOLE_EVENTS, namespace or self.namespace)
        values = [item.value for item in found.items if item.value["involvedObject"].get("name") == name]
        told = [value for value in values if uid in (None, value["involvedObject"].get("uid"))]
        return [(item["type"], item["reason"], item["message"]) for item in sorted(told, key=lambda v: v["firstTimestamp"])]

    async def told(self, name: str, reason: str, namespace: str | None = None, uid: str | None = None) -> list[str]:
        """What was told of an object for that reason, once something was: an event follows a status at its own time."""

        async def found() -> list[str]:
            return [message for _, item, message in await self.events(name, namespace, uid) if item == reason]

        try:
            messages: list[str] = await until(found)
        except AssertionError:
            raise AssertionError(f"{name}: {reason} was not told, but {await self.events(name, namespace, uid)}") from None
        return messages

    async def until(self, name: str, seconds: float = PATIENCE, **wanted: str) -> dict[str, tuple[str, str]]:
        """Wait until conditions have these statuses, or `status/reason`."""

        async def fitting() -> dict[str, tuple[str, str]] | None:
            found = await self.conditions(name)
            return found if all(_fits(found.get(type_), value) for type_, value in wanted.items()) else None

        try:
            conditions: dict[str, tuple[str, str]] = await until(fitting, seconds)
        except AssertionError:
            raise AssertionError(f"{name}: wanted {wanted}, found {await self.status(name)}") from None
        return conditions

    async def says(self, name: str, *texts: str, condition: str = "Configured") -> str:
        """The message of a condition, once it has all of these: the next state may stand there a moment later."""

        async def fitting() -> str | None:
            found = (await self.status(name)).get("conditions", ())
            messages = (str(item["message"]) for item in found if item["type"] == condition)
            return next((message for message in messages if all(text in message for text in texts)), None)

        try:
            message: str = await until(fitting)
        except AssertionError:
            raise AssertionError(f"{name}: {texts} is not said, but {await self.status(name)}") from None
        return message

    async def wait_ready(self, *arguments: str, seconds: float = PATIENCE) -> None:
        """`kubectl wait --for=condition=Ready egressproxy/cluster`, as people call it."""
        waits = ("wait", "--for=condition=Ready", f"--timeout={seconds:.0f}s", *(arguments or ("egressproxy/cluster",)))
        await asyncio.to_thread(self.control_plane.run_kubectl, *waits)

    @contextlib.asynccontextmanager
    async def operator(self, client: Client | None = None, **options: Any) -> AsyncIterator[Operator]:
        """An operator in this process; a fault of its own fails the test."""
        pace, now = options.pop("pace", HostTimings()), options.pop("now", lambda: datetime.now(UTC))
        made = Options(namespace=self.namespace, pace=pace, reflector=QUICK, workers=8, **options)
        # a client of its own: it knows what this process was answered
        async with at_work(Operator(client or Client(self.client.connection), made, now=now)) as operator:
            yield operator


@contextlib.asynccontextmanager
async def at_work(operator: Operator) -> AsyncIterator[Operator]:
    """An operator in this process until the block ends; a fault of its own fails the test."""
    stop = asyncio.Event()
    working = asyncio.create_task(operator.run(stop))
    try:
        yield operator
    finally:
        stop.set()
        await working


def _fits(found: tuple[str, str] | None, wanted: str) -> bool:
    status, _, reason = wanted.partition("/")
    return found is not None and found[0] == status and reason in ("", found[1])


def _object(resource: Resource[Any], name: str, namespace: str | None = None) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def environment(host: Host, service: str) -> Sequence[str]:
    """The items of a service's own environment."""
    value = host.registry.find_value(rf"{SERVICES}\{service}", "Environment")
    return value.to_texts() if value else ()


@contextlib.asynccontextmanager
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    connection = connect(str(control_plane.kubeconfig))
    try:
        yield Client(connection)
    finally:
        await connection.close()


def fingerprint(cluster: Cluster, host: Host) -> str:
    """Of the key that the host shows."""
    return asyncssh.import_public_key(cluster.simulator.format_host_key(host)).get_fingerprint()


@contextlib.asynccontextmanager
async def open_cluster(control_plane: ControlPlane, simulator: Simulator) -> AsyncIterator[Cluster]:
    """Prepare a namespace of an API server with its administrator's client; delete at the end what the tests created in it."""
    async with admin(control_plane) as client:
        made = Cluster(control_plane, client, simulator)
        await made.prepare()
        yield made
        await made.leave()
