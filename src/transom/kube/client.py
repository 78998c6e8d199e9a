"""Requests to an API server: each with a deadline of its own, each failure an ApiError."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic

import aiohttp
import msgspec
import structlog

from transom.kube import AnswerTooLarge, ApiError, ConnectionFailed, UnreadableObject, status_error
from transom.kube.connection import NO_ANSWER, Connection
from transom.kube.execution import EXEC_PROTOCOLS, Executed, output_of
from transom.kube.nesting import shortened, too_deep
from transom.kube.objects import T
from transom.kube.reading import Malformed, around, decoded, read_object, refusal
from transom.kube.resources import PODS, Resource
from transom.kube.transport import HttpAnswer, Request, WayErrors
from transom.kube.versions import Groups

_log: Final = structlog.get_logger("transom.kube.client")
FIELD_MANAGER: Final = "transom"
TIMEOUT: Final = 30.0
"""Seconds for one request and its answer, however slowly either comes."""
PAGE: Final = 500
_MAX_PAGE: Final = 24 << 20
"""Bytes of a page of a list. One of 500 objects has up to 15 MB, unless somebody made large ones."""
_MAX_LINE: Final = 8 << 20
_MAX_RETRIES: Final = 4
_MAX_RETRY_AFTER: Final = 30.0
_WATCH_HEADERS_SECONDS: Final = 30.0

Permit = Callable[[], float]
"""Asked right before each write: gives the seconds that are left for it, or raises (the lease is lost)."""


@dataclass(frozen=True)
class Listing(Generic[T]):
    """All objects of a kind at one version."""

    items: list[T]
    malformed: list[Malformed]
    """What does not fit; of the `items` those, too, of which not everything was read."""
    resource_version: str


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object not yet decoded."""

    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


_decode_page: Final = msgspec.json.Decoder(_Page).decode
_decode_event: Final = msgspec.json.Decoder(WatchEvent).decode


class Client:
    """The requests that Transom makes. `permit` guards every write; without one nothing does.

    Of all requests `resource` is the kind, and the type that is read. `namespace` is None for a cluster-scoped kind, and where
    a list or a watch is of all namespaces. `value` is the object, or what is changed of it, in plain values.

    They raise ApiError: NotFound, Conflict, Gone or another StatusError where the server says no, ConnectionFailed where no
    answer comes in time (`TIMEOUT`), UnreadableObject where it does not fit the type.
    """

    def __init__(self, connection: Connection, permit: Permit | None = None, groups: Groups | None = None) -> None:
        self.connection = connection
        self.groups = groups or Groups(self.get_json)
        self._permit = permit

    def guarded(self, permit: Permit) -> "Client":
        """The same connection, on which a write is only begun, and only lasts, while `permit` allows it."""
        return Client(self.connection, permit, self.groups)

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        """The object of that `name`. Raises NotFound."""
        return _decoded(resource, await self.request("GET", resource.path(namespace, name)))

    async def get_json(self, path: str) -> Any:
        """Whatever is at a path, as plain values. Raises UnreadableObject."""
        body = await self.request("GET", path)
        try:
            return decoded(msgspec.json.decode, shortened(body) if too_deep(body) else body)
        except msgspec.DecodeError as error:
            raise UnreadableObject(f"{path}: {error}") from error

    async def list_objects(
        self, resource: Resource[T], namespace: str | None = None, *, labels: str = "", fields: str = "", page: int = PAGE
    ) -> Listing[T]:
        """All objects, in pages of at most `page`. One that does not fit is in `malformed` and spoils no other. Raises Gone.

        `labels` and `fields` are selectors, as kubectl takes them; empty: all objects.
        """
        query = _selectors(labels, fields)
        items: list[T] = []
        malformed: list[Malformed] = []
        while True:
            try:
                body = await self.request("GET", resource.path(namespace), query | {"limit": str(page)}, most=_MAX_PAGE)
            except AnswerTooLarge:
                if page == 1:
                    raise
                # anybody's large objects: as many of them as there is memory for
                page = max(1, page // 4)
                continue
            try:
                read = await around(_decode_page, body)
            except msgspec.DecodeError as error:
                raise ConnectionFailed(f"{resource.plural}: the answer is no list: {error}") from error
            for raw in read.items or ():
                one = read_object(resource, raw)
                if one.object is not None:
                    items.append(one.object)
                if one.malformed is not None:
                    malformed.append(one.malformed)
            if not read.metadata.continue_:
                return Listing(items, malformed, read.metadata.resource_version or "")
            query["continue"] = read.metadata.continue_
            # a page of 500 costs milliseconds: others get their turn in between
            await asyncio.sleep(0)

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[Any],
        resource_version: str,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        seconds: int = 300,
        inactivity: float = 150,
    ) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        """The changes since `resource_version`, in the batches that they come in; the server ends it after `seconds`.

        `labels` and `fields` are selectors, as of a list. Raises Gone where the version is too old, ConnectionFailed where the
        line is cut or silent for `inactivity` seconds.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        } | _selectors(labels, fields)
        self.connection.renew()
        async with AsyncExitStack() as open_:
            with WayErrors(resource.plural):
                async with asyncio.timeout(_WATCH_HEADERS_SECONDS):
                    stream = self.connection.transport.stream(resource.path(namespace), query, inactivity)
                    response = await open_.enter_async_context(stream)
                if response.status != 200:
                    raise refusal(await response.read(), response.status, response.headers.get("Retry-After"))
            yield _events(response.content, resource.plural)

    async def create(self, resource: Resource[T], value: Mapping[str, Any], namespace: str | None = None) -> T:
        """Make an object. Raises Conflict where it exists."""
        query = {"fieldManager": FIELD_MANAGER}
        return _decoded(resource, await self.request("POST", resource.path(namespace), query, value))

    async def replace(
        self, resource: Resource[T], value: Mapping[str, Any], name: str, namespace: str | None = None, seconds: float = TIMEOUT
    ) -> T:
        """Put an object in place of the version that `value` names. Raises Conflict where that is no longer the current one.

        `seconds` are for the request with its answer.
        """
        query = {"fieldManager": FIELD_MANAGER}
        path = resource.path(namespace, name)
        return _decoded(resource, await self.request("PUT", path, query, value, seconds=seconds))

    async def patch(
        self,
        resource: Resource[T],
        value: Mapping[str, Any],
        name: str,
        namespace: str | None = None,
        manager: str = FIELD_MANAGER,
    ) -> T:
        """A JSON merge patch (RFC 7386). With a `manager` of its own its time stays known, whatever else is written later."""
        query = {"fieldManager": manager}
        path = resource.path(namespace, name)
        return _decoded(resource, await self.request("PATCH", path, query, value, content_type="application/merge-patch+json"))

    async def json_patch(
        self, resource: Resource[T], operations: Sequence[Mapping[str, Any]], name: str, namespace: str | None = None
    ) -> T:
        """A JSON Patch (RFC 6902) of `operations`. A `test` that does not hold is a StatusError 422: nothing was changed."""
        query = {"fieldManager": FIELD_MANAGER}
        path = resource.path(namespace, name)
        content_type = "application/json-patch+json"
        return _decoded(resource, await self.request("PATCH", path, query, operations, content_type=content_type))

    async def server_side_apply(
        self,
        resource: Resource[T],
        value: Mapping[str, Any],
        name: str,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        force: bool = True,
        manager: str = FIELD_MANAGER,
    ) -> T:
        """Server-side apply as field manager `transom`. Without `force`, a field that is another manager's raises Conflict.

        `subresource` is `status`, say; None: the object itself. What two parts of Transom write of one object, each by itself,
        has a `manager` for each: neither takes the other's away.
        """
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        path = resource.path(namespace, name, subresource)
        return _decoded(resource, await self.request("PATCH", path, query, value, content_type="application/apply-patch+yaml"))

    async def delete(self, resource: Resource[Any], name: str, namespace: str | None = None, uid: str | None = None) -> None:
        """Delete an object; with `uid` only that one. Raises NotFound, Conflict."""
        body = {"preconditions": {"uid": uid}} if uid else None
        await self.request("DELETE", resource.path(namespace, name), None, body)

    async def execute(self, namespace: str, pod: str, command: Sequence[str], seconds: float = TIMEOUT) -> Executed:
        """What a command prints that the kubelet runs in the only container of a pod, within `seconds`. Raises ApiError.

        It is asked for by WebSocket, which API servers speak from 1.30 on by default (KEP-4006) and may refuse to who cannot
        both `get` and `create` pods/exec.
        """
        path = PODS.path(namespace, pod, "exec")
        query = [("stdout", "true"), ("stderr", "true"), *(("command", word) for word in command)]
        self.connection.renew()
        if self._permit is not None:
            seconds = min(seconds, self._permit())
        with WayErrors(f"GET {path}"):
            async with asyncio.timeout(seconds), self.connection.transport.websocket(path, query, EXEC_PROTOCOLS) as opened:
                if isinstance(opened, int):
                    raise status_error(opened, "", f"{path}: HTTP {opened}")
                return await output_of(opened)

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        content_type: str = "application/json",
        seconds: float = TIMEOUT,
        retries: int = _MAX_RETRIES,
        most: int | None = None,
    ) -> bytes:
        """The answer to one request, as bytes; `method` and `path` are HTTP's, `body` is sent as JSON. Raises ApiError.

        `seconds` include the `retries` of what the server refused unseen (429). Where a 429 is the answer itself, as an
        eviction's is, there are to be none. An answer of more than `most` bytes raises AnswerTooLarge.
        """
        self.connection.renew()
        content = msgspec.json.encode(body) if body is not None else None
        permit = self._permit if method != "GET" else None
        if permit is not None:
            seconds = min(seconds, permit())
        with WayErrors(f"{method} {path}"):
            async with asyncio.timeout(seconds):
                while True:
                    answer = await self._answer(Request(method, path, query, content, content_type, most))
                    if 200 <= answer.status < 300:
                        return answer.body
                    error = refusal(answer.body, answer.status, answer.headers.get("Retry-After"))
                    wait = error.retry_after
                    if answer.status != 429 or wait is None or wait > _MAX_RETRY_AFTER or not retries:
                        raise error
                    retries -= 1
                    await asyncio.sleep(wait)
                    if permit is not None:
                        permit()

    async def _answer(self, request: Request) -> HttpAnswer:
        began, said = time.monotonic(), NO_ANSWER
        try:
            answer = await self.connection.transport.request(request)
            said = str(answer.status)
        finally:
            self.connection.answers[said] += 1
        taken = round(time.monotonic() - began, 3)
        _log.debug(
            "request", method=request.method, path=request.path, query=request.query, status=answer.status, seconds=taken
        )
        return answer


def _decoded(resource: Resource[T], body: bytes) -> T:
    read = read_object(resource, body)
    if read.object is None:
        raise UnreadableObject(f"{resource.kind}: {read.malformed.problem if read.malformed else ''}")
    return read.object


def status_of(event: WatchEvent) -> ApiError:
    """The error that an ERROR event of a watch brings."""
    return refusal(bytes(event.object), 500)


async def _events(content: aiohttp.StreamReader, what: str) -> AsyncIterator[list[WatchEvent]]:
    rest = b""
    with WayErrors(what):
        async for chunk in content.iter_any():
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            if len(rest) > _MAX_LINE:
                raise ConnectionFailed(f"{what}: a line of the watch is longer than {_MAX_LINE:,} bytes")
            try:
                events = [await around(_decode_event, line) for line in lines if line]
            except msgspec.DecodeError as error:
                raise ConnectionFailed(f"{what}: a line of the watch cannot be read: {error}") from error
            if events:
                yield events
    if rest:
        raise ConnectionFailed(f"{what}: the watch was cut in the middle of a line")


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
