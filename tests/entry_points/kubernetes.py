"""What others write into a cluster: objects of each kind that is followed, lists that are read once, and kubeconfigs."""

import asyncio
import base64
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
from aiohttp import web
from lab.authority import Authority
from tests.controllers.propagation.test_foreign_clusters import ANSWERS, REFUSED, Foreign, answered, connected, kubeconfig
from tests.entry_points.api_server import StrangersApiServer, serve_strangers
from tests.entry_points.attacks import (
    ANSWER_VARIANTS,
    KUBECONFIG_VARIANTS,
    build_deep_line,
    build_service,
    build_watched_line,
)
from tests.entry_points.entry_point import MIB, Bench, OpenBench
from tests.kube.gadgets import QUICK, following
from tests.kube.hostile_objects import HOSTILE_OBJECTS
from tests.kube.test_bounds import FOLLOWED, measure_memory
from tests.support.waiting import until
from tests.windows.hostile_requests import HOSTILE_REQUESTS, build_large

from transom.controllers.certificates.controller import REQUESTS, CertificatesController
from transom.controllers.egress.controller import EgressController
from transom.controllers.join.members import Members
from transom.controllers.join.reserved_names import ReservedNameFinder
from transom.controllers.operator import Operator
from transom.controllers.rollout.drain import PODS, Drain
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.options import Options
from transom.kube.api_versions import PREFERRED
from transom.kube.client import Client
from transom.kube.decoding import decode_object
from transom.kube.errors import ApiError, ConfigurationError
from transom.kube.events import Regarding
from transom.kube.memory_limits import get_memory_limit
from transom.kube.pod_exec import EXEC_PROTOCOLS
from transom.kube.reflector import Reflector
from transom.kube.resources import BUNDLE_HOLDERS, EGRESS_PROXIES, Resource
from transom.kube.store import ObjectKey, Store
from transom.verification.checks import Exec, Log
from transom.verification.cluster_verification import _MORE, _ClusterVerification
from transom.windows.nodes.node_certificates import Member
from transom.windows.nodes.windows_instance import SERVING

_EXEC_SECONDS: Final = 3 * _MORE
EVENTS: Final[Mapping[str, Callable[[str], bytes]]] = {
    "event of 7 MB": lambda name: build_watched_line("ADDED", name, 7 * MIB),
    "event of 10 MB": lambda name: build_watched_line("ADDED", name, 10 * MIB),
    "deep event": lambda name: build_deep_line(name, 9_000),
    "event that is no JSON": lambda name: b"{" * MIB + b"\n",
    "events without an end": lambda name: build_watched_line("ADDED", name, 10) * 5_000,
}
"""Lines of a watch, beside the objects."""
SHAPES: Final = (*HOSTILE_OBJECTS, *EVENTS)
HONEST: Final[Resource[Any]] = Resource("test.transom.dev", "v1", "Gadget", "gadgets", True, EGRESS_PROXIES.type)


class _Neighbour:
    """A reflector of a kind that nobody attacks: each object that is made comes into its store."""

    def __init__(self, server: StrangersApiServer, client: Client) -> None:
        self._server, self._made = server, 0
        self.store: Store[Any] = Store()
        self.reflector = Reflector(client, HONEST, self.store, timings=QUICK)
        server.objects[HONEST.build_path()] = []

    async def serve(self) -> None:
        self._made += 1
        name = f"honest-{self._made}"
        await until(lambda: self._server.is_watched(HONEST.build_path()))
        self._server.send(HONEST.build_path(), build_watched_line("ADDED", name, 10))
        await until(lambda: ObjectKey("tenant", name) in self.store.take_snapshot())


class _KindBench(Bench):
    def __init__(self, server: StrangersApiServer, client: Client, resource: Resource[Any], neighbour: _Neighbour) -> None:
        self._server, self._client, self._resource, self._neighbour = server, client, resource, neighbour
        self._bound = get_memory_limit(resource)
        self.store: Store[Any] = Store(memory_limit=self._bound)
        self.reflector = Reflector(client, resource, self.store, timings=QUICK)
        server.objects[resource.build_path()] = []

    async def attack(self, name: str) -> None:
        path = self._resource.build_path()
        await until(lambda: self._server.is_watched(path))
        if name in EVENTS:
            self._server.send(path, EVENTS[name](name.replace(" ", "-")))
        else:
            text = HOSTILE_OBJECTS[name](self._resource.type, name)
            self._server.objects[path] = [text]
            self._server.send(path, b'{"type":"ADDED","object":' + text + b"}\n")
            listing = await self._client.list_objects(self._resource, memory_limit=self._bound)
            assert len(listing.items) + len(listing.malformed) == 1
        await self._follow_on(path, f"after-{name.replace(' ', '-')}")

    async def _follow_on(self, path: str, name: str) -> None:
        """Wait until what comes next is read as well, be it after the watch was begun again."""

        def comes() -> bool:
            self._server.send(path, build_watched_line("ADDED", name, 10))
            key = ObjectKey("tenant", name)
            return key in self.store.take_snapshot() or key in self.store.malformed or self.store.lacks_room

        await until(comes, every=0.1)

    async def serve_neighbour(self) -> None:
        await self._neighbour.serve()

    def count_retained(self) -> int:
        return measure_memory(self.store)


def open_kind(kind: str) -> OpenBench:
    """Return a bench of a kind that is followed, as `list_followed` names it."""

    @asynccontextmanager
    async def open_bench(directory: Path, _: tuple[str, ...]) -> AsyncIterator[Bench]:
        resource = FOLLOWED[kind]
        if resource.version == PREFERRED:
            resource = replace(resource, version="v1")
        async with serve_strangers(directory) as (server, client):
            neighbour = _Neighbour(server, client)
            bench = _KindBench(server, client, resource, neighbour)
            async with following(neighbour.reflector), following(bench.reflector):
                await bench.reflector.synced.wait()
                yield bench

    return open_bench


# --- lists that are read once, and requests for certificates

_SERVICES: Final = "/api/v1/services"
_SERVICE_KINDS: Final[Mapping[str, Callable[[], bytes]]] = {
    "Services with 90,000 addresses": lambda: build_service("x", externalIPs=["192.0.2.1"] * 90_000),
    "Services with 60,000 labels": lambda: build_service("x", selector={f"{n:07}": "" for n in range(60_000)}),
    "Services with 60,000 ports": lambda: build_service("x", ports=[{"port": 1}] * 60_000),
}
_LISTS: Final = ("ConfigMaps of 1 MiB", "ConfigMaps that say they are Transom's", "pods of 1 MiB on a node")
LISTS: Final = (*_SERVICE_KINDS, *_LISTS)
CERTIFICATE_REQUESTS: Final = tuple(HOSTILE_REQUESTS)
_MANY: Final = 30
_MEMBER: Final = Member("ns/win-1", "win-1", node_uid="u", names=frozenset({"win-1"}), addresses=frozenset({"10.0.0.7"}))
_APPROVAL: Final = f"{REQUESTS.build_path(None, 'honest')}/approval"


class _OperatorBench(Bench):
    """An operator's controllers before an API server that has what strangers made."""

    def __init__(self, server: StrangersApiServer, client: Client) -> None:
        self._server = server
        self._operator = Operator(client, Options())
        self._events: list[str] = []
        recorder = SimpleNamespace(record_warning=self._record, record_normal=self._record)
        self._leadership = cast(Leadership, SimpleNamespace(client=client, recorder=recorder))
        members = cast(Members, SimpleNamespace(find_candidates=lambda *_: [_MEMBER]))
        self._certificates = CertificatesController(self._operator.informers, self._operator.settings, members)
        self._egress = EgressController(self._operator.informers, self._operator.settings)
        self._approved = 0
        server.objects[_SERVICES] = [build_service("web", clusterIP="10.96.0.9", clusterIPs=["10.96.0.9"])]
        server.answers[_APPROVAL] = self._approve
        server.answers["/api/v1/nodes/win-1"] = lambda _: web.json_response(
            {"metadata": {"name": "win-1", "uid": "u"}, "spec": {"unschedulable": True}}
        )

    def _record(self, *_: object) -> None:
        self._events.append("event")

    def _approve(self, _: web.BaseRequest) -> web.Response:
        self._approved += 1
        return web.json_response({"metadata": {"name": "honest"}})

    async def attack(self, name: str) -> None:
        if name in HOSTILE_REQUESTS:
            await self._judge(name, HOSTILE_REQUESTS[name]())
            assert self._events
        elif name in _SERVICE_KINDS:
            self._server.objects[_SERVICES] = [*self._server.objects[_SERVICES][:1], *[_SERVICE_KINDS[name]()] * _MANY]
            await ReservedNameFinder(self._operator.informers, self._operator.settings).find_reserved(
                _MEMBER, self._leadership.client
            )
        elif name.startswith("ConfigMaps"):
            shape = "managed-fields" if "Transom's" in name else "labels"
            text = HOSTILE_OBJECTS[shape](BUNDLE_HOLDERS.type, "x")
            self._server.objects[BUNDLE_HOLDERS.build_path()] = [text] * _MANY
            await self._egress._find_unlabelled_bundles(self._leadership)
        else:
            self._server.objects[PODS.build_path()] = [HOSTILE_OBJECTS["owners"](PODS.type, "x")] * _MANY
            drain = Drain("win-1", "u", "upgrade", self._leadership, _REGARDING, lambda: datetime.now(UTC), 60.0)
            assert len((await drain.run_step()).remaining) == _MANY

    async def _judge(self, name: str, pem: bytes) -> None:
        spec = {
            "request": base64.b64encode(pem).decode(),
            "signerName": SERVING,
            "username": "system:node:win-1",
            "groups": ["system:nodes"],
            "usages": ["digital signature", "server auth"],
        }
        raw = msgspec.json.encode({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec})
        store = self._certificates._stores[0]
        read = decode_object(REQUESTS, raw)
        assert read.object is not None
        store.put(read.object)
        await self._certificates.reconcile(ObjectKey(None, name), self._leadership)

    async def serve_neighbour(self) -> None:
        approved = self._approved
        await self._judge("honest", build_large(names=1))
        assert self._approved == approved + 1


_REGARDING: Final = Regarding("transom.dev/v1alpha1", "WindowsInstance", "win-1", "ns", "u")


@asynccontextmanager
async def open_operator(directory: Path, _: tuple[str, ...]) -> AsyncIterator[Bench]:
    """Controllers that list once what others have made, and judge requests."""
    async with serve_strangers(directory) as (server, client):
        yield _OperatorBench(server, client)


# --- kubeconfigs of tenants, and the API servers that they lead to

_REFUSED: Final[Mapping[str, str | bytes]] = {name: text for name, text, _ in REFUSED}
KUBECONFIGS: Final = (*_REFUSED, *KUBECONFIG_VARIANTS)
_TAKEN: Final = re.compile(
    "CA of 400|brackets in quotes|a server of 200|a server of 60|a token of|the same names|extensions|a namespace of"
)


class _KubeconfigBench(Bench):
    async def attack(self, name: str) -> None:
        text = _REFUSED[name] if name in _REFUSED else KUBECONFIG_VARIANTS[name]()
        try:
            connection = connected(text)
        except ConfigurationError as error:
            assert len(str(error)) < 1_000
            return
        await connection.close()
        assert _TAKEN.match(name)

    async def serve_neighbour(self) -> None:
        await connected(kubeconfig({"server": "https://10.0.0.1:6443"})).close()


@asynccontextmanager
async def open_kubeconfigs(_: Path, __: tuple[str, ...]) -> AsyncIterator[Bench]:
    """Secrets that a tenant wrote."""
    yield _KubeconfigBench()


_ANSWERS: Final[Mapping[str, tuple[bytes, list[bytes]]]] = {name: (head, chunks) for name, head, chunks, _ in ANSWERS}
FOREIGN_ANSWERS: Final = (*_ANSWERS, *ANSWER_VARIANTS)
_GOOD: Final = b'{"metadata":{"name":"cluster"}}'


class _ForeignBench(Bench):
    def __init__(self, listen: Callable[[], Awaitable[Foreign]], honest: Foreign) -> None:
        self._listen, self._honest = listen, honest

    async def attack(self, name: str) -> None:
        foreign = await self._listen()
        foreign.headers, foreign.chunks = (_ANSWERS | ANSWER_VARIANTS)[name]
        with contextlib.suppress(ApiError):
            assert (await answered(foreign)).metadata.name != "cluster"

    async def serve_neighbour(self) -> None:
        assert (await answered(self._honest)).metadata.name == "cluster"


@asynccontextmanager
async def open_foreign(directory: Path, _: tuple[str, ...]) -> AsyncIterator[Bench]:
    """API servers of others, each on a port of its own."""
    authority = Authority(directory)
    authority.issue("server", "api", addresses=("127.0.0.1",))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.crt", directory / "server.key")
    async with contextlib.AsyncExitStack() as stack:

        async def listen() -> Foreign:
            foreign = Foreign()
            listener = await asyncio.start_server(foreign.serve, "127.0.0.1", 0, ssl=context)
            stack.callback(listener.close)
            foreign.listens(directory, listener.sockets[0].getsockname()[1])
            return foreign

        honest = await listen()
        honest.chunks = [_GOOD]
        yield _ForeignBench(listen, honest)


# --- what nodes answer by way of the API server

NODE_ANSWERS: Final = ("log without an end", "output without an end", "one message of 16 MB", "empty messages without an end")
_POD: Final = "/api/v1/namespaces/ns/pods/evil"


class _NodeBench(Bench):
    def __init__(self, server: StrangersApiServer, client: Client) -> None:
        self._server, self._client = server, client
        server.answers[f"{_POD}/log"] = self._log
        server.answers[f"{_POD}/exec"] = self._execute
        server.answers["/api/v1/namespaces/ns/pods/good/log"] = lambda _: web.Response(body=b"ready\n")
        self._run = _ClusterVerification.__new__(_ClusterVerification)
        self._run._client = client
        self._run._wanted = cast(Any, SimpleNamespace(namespace="ns"))
        self._name = ""

    async def _log(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(b"x" * MIB)
        return response

    async def _execute(self, request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=EXEC_PROTOCOLS)
        await socket.prepare(cast(web.Request, request))
        with contextlib.suppress(ConnectionError):
            if self._name == "one message of 16 MB":
                await socket.send_bytes(b"\1" + b"x" * 16 * MIB)
            while not socket.closed:
                await socket.send_bytes(b"\1" + (b"x" * 100_000 if "output" in self._name else b""))
                await asyncio.sleep(0)
        return socket

    async def attack(self, name: str) -> None:
        self._name = name
        question = Log("evil", "log") if name.startswith("log") else Exec("evil", "exec", ("true",))
        async with asyncio.timeout(_EXEC_SECONDS):
            answer = await self._run._answer_question(question)
        assert answer.code == -1

    async def serve_neighbour(self) -> None:
        answer = await self._run._answer_question(Log("good", "log"))
        assert (answer.code, answer.text) == (0, "ready\n")


@asynccontextmanager
async def open_nodes(directory: Path, _: tuple[str, ...]) -> AsyncIterator[Bench]:
    """Pods' logs and the output of commands in pods, which a node's kubelet sends."""
    async with serve_strangers(directory) as (server, client):
        yield _NodeBench(server, client)
