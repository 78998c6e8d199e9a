"""Requests to an API server: each with a deadline of its own, each failure an ApiError."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Generic

import aiohttp
import msgspec
import structlog

from transom.kube.api_versions import ApiGroups
from transom.kube.connection import NO_ANSWER, Connection
from transom.kube.decoding import (
    DecodeResult,
    MalformedObject,
    decode_envelope,
    decode_json,
    decode_object,
    parse_error_response,
    parse_metadata,
    strip_metadata,
)
from transom.kube.errors import ApiError, ConnectionFailed, ResponseTooLarge, UnreadableObject, build_status_error
from transom.kube.memory_limits import MemoryLimit, estimate_memory_size
from transom.kube.nesting import is_too_deep, truncate_nesting
from transom.kube.objects import T
from transom.kube.pod_exec import EXEC_PROTOCOLS, CommandResult, read_output
from transom.kube.refusals import Refusals
from transom.kube.refused_writes import RefusedWrites
from transom.kube.resources import PODS, Resource
from transom.kube.server_history import ServerHistory
from transom.kube.transport import HttpResponse, Request, TransportErrors
from transom.kube.watch_failures import WatchFailures

_log: Final = structlog.get_logger("transom.kube.client")
FIELD_MANAGER: Final = "transom"
TIMEOUT: Final = 30.0
"""Seconds for one request and its answer, however slowly either comes."""
PAGE: Final = 500
_MAX_PAGE: Final = 24 << 20
"""Bytes of a page of a list. One of 500 objects has up to 15 MB, unless a user created large ones."""
_MAX_LINE: Final = 8 << 20
_LARGE: Final = 64 << 10
"""Bytes of an object after which other work gets its turn."""
_MAX_RETRIES: Final = 4
_MAX_RETRY_AFTER: Final = 30.0
_WATCH_HEADERS_SECONDS: Final = 30.0

Permit = Callable[[], float]
"""Asked right before each write: gives the seconds that are left for it, or raises (the lease is lost)."""


@dataclass(frozen=True)
class Listing(Generic[T]):
    """All objects of a kind at one version."""

    items: list[T]
    malformed: list[MalformedObject]
    """The errors; also those of the `items` that were only partly read."""
    resource_version: str


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object not yet decoded."""

    type: str
    object: msgspec.Raw


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None
    """Servers encode an empty list as `[]` or null. JSON without it is the page of something else that answers."""
    metadata: _ListMeta = _ListMeta()


_decode_page: Final = msgspec.json.Decoder(_Page).decode
_decode_event: Final = msgspec.json.Decoder(WatchEvent).decode


class Client:
    """The requests that Transom makes. `permit` guards every write; without one nothing does.

    Of all requests `resource` is the kind, and the type that is read. `namespace` is None for a cluster-scoped kind, and where
    a list or a watch is of all namespaces. `value` is the object, or what is changed of it, in plain values.

    They raise ApiError: NotFound, Conflict, Gone or another StatusError where the server says no, ConnectionFailed where no
    answer comes in time (`TIMEOUT`), UnreadableObject if it does not match the type.
    """

    def __init__(
        self,
        connection: Connection,
        permit: Permit | None = None,
        groups: ApiGroups | None = None,
        watch_failures: WatchFailures | None = None,
        history: ServerHistory | None = None,
        refusals: Refusals | None = None,
        refused_writes: RefusedWrites | None = None,
    ) -> None:
        self.connection = connection
        self.watch_failures = watch_failures or WatchFailures()
        self.groups = groups or ApiGroups(self.get_json)
        self.history = history or ServerHistory()
        """What the server answered before, for all who ask it by this connection."""
        self.refusals = refusals or Refusals()
        """Which rights its requests lack."""
        self.refused_writes = refused_writes or RefusedWrites()
        """Which of its writes are refused for other reasons."""
        self._permit = permit

    def with_permit(self, permit: Permit) -> "Client":
        """Return a client for the same connection whose writes start and last only while `permit` allows it."""
        return Client(
            self.connection, permit, self.groups, self.watch_failures, self.history, self.refusals, self.refused_writes
        )

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        """Return the object with that `name`. Raises NotFound."""
        return _decode_object(resource, await self.request("GET", resource.build_path(namespace, name)))

    async def get_json(self, path: str) -> Any:
        """Whatever is at a path, as plain values. Raises UnreadableObject."""
        body = await self.request("GET", path)
        try:
            return decode_json(msgspec.json.decode, truncate_nesting(body) if is_too_deep(body) else body)
        except msgspec.DecodeError as error:
            raise UnreadableObject(f"{path}: {error}") from error

    async def list_objects(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        page_size: int = PAGE,
        memory_limit: MemoryLimit | None = None,
        select: Callable[[T], bool] | None = None,
    ) -> Listing[T]:
        """List all objects, in pages of at most `page_size`. An invalid one is in `malformed`. Raises Gone.

        `labels` and `fields` are selectors, as kubectl takes them; empty: all objects. An object that is larger than
        `memory_limit` allows, or for which those before it leave no room, is in `malformed` too. An object that
        `select` refuses is dropped at once, so that it uses no memory while others are read.
        """
        retained = 0
        query = _build_selectors(labels, fields)
        items: list[T] = []
        malformed: list[MalformedObject] = []
        while True:
            try:
                body = await self.request(
                    "GET", resource.build_path(namespace), query | {"limit": str(page_size)}, limit=_MAX_PAGE
                )
            except ResponseTooLarge:
                if page_size == 1:
                    raise
                # anybody's large objects: as many of them as there is memory for
                page_size = max(1, page_size // 4)
                continue
            try:
                read = await decode_envelope(_decode_page, body)
            except msgspec.DecodeError as error:
                raise ConnectionFailed(f"{resource.plural}: the answer is not a list: {error}") from error
            for raw in read.items or ():
                result = decode_object(resource, raw)
                if result.object is not None and select is not None and not select(result.object):
                    result = DecodeResult(None)
                if result.object is not None and memory_limit is not None:
                    size = estimate_memory_size(result.object)
                    fits = size <= memory_limit.object and retained + size <= memory_limit.store
                    retained += size if fits else 0
                    if not fits:
                        problem = memory_limit.too_large_message if size > memory_limit.object else memory_limit.no_room_message
                        result = DecodeResult(None, MalformedObject(parse_metadata(bytes(raw)), problem))
                if result.object is not None:
                    items.append(result.object)
                if (note := result.malformed) is not None:
                    if memory_limit is not None:
                        note = note if retained + estimate_memory_size(note) <= memory_limit.store else strip_metadata(note)
                        retained += estimate_memory_size(note)
                    malformed.append(note)
                if len(raw) > _LARGE:
                    await asyncio.sleep(0)
            if not read.metadata.continue_:
                version = read.metadata.resource_version or ""
                self.history.observe_version(build_history_subject(resource), version)
                return Listing(items, malformed, version)
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
        """Watch the changes since `resource_version`, in batches as received; the server ends it after `seconds`.

        `labels` and `fields` are selectors, as of a list. Raises Gone if the version is too old, ConnectionFailed if the
        connection is cut or silent for `inactivity` seconds.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        } | _build_selectors(labels, fields)
        self.connection.renew()
        async with AsyncExitStack() as open_:
            with TransportErrors(resource.plural):
                async with asyncio.timeout(_WATCH_HEADERS_SECONDS):
                    stream = self.connection.transport.open_stream(resource.build_path(namespace), query, inactivity)
                    response = await open_.enter_async_context(stream)
                if response.status != 200:
                    error = parse_error_response(await response.read(), response.status, response.headers.get("Retry-After"))
                    if response.status == HTTPStatus.FORBIDDEN:
                        self.refusals.note_refusal("WATCH", resource.build_path(namespace), str(error))
                    raise error
                self.refusals.note_success("WATCH", resource.build_path(namespace))
            yield _iter_events(response.content, resource.plural)

    async def read_resource_version(self, resource: Resource[Any], namespace: str | None = None) -> str:
        """Return the version of a kind now, without its objects; the history observes it. Raises ApiError."""
        body = await self.request("GET", resource.build_path(namespace), {"limit": "1"}, limit=_MAX_PAGE)
        try:
            version = _decode_page(body).metadata.resource_version or ""
        except msgspec.DecodeError as error:
            raise ConnectionFailed(f"{resource.plural}: the answer is not a list: {error}") from error
        self.history.observe_version(build_history_subject(resource), version)
        return version

    async def create(self, resource: Resource[T], value: Mapping[str, Any], namespace: str | None = None) -> T:
        """Make an object. Raises Conflict where it exists."""
        query = {"fieldManager": FIELD_MANAGER}
        return _decode_object(resource, await self.request("POST", resource.build_path(namespace), query, value))

    async def replace(
        self, resource: Resource[T], value: Mapping[str, Any], name: str, namespace: str | None = None, seconds: float = TIMEOUT
    ) -> T:
        """Replace the version of an object that `value` names. Raises Conflict if that version is outdated.

        `seconds` is the timeout of the request including its answer.
        """
        query = {"fieldManager": FIELD_MANAGER}
        path = resource.build_path(namespace, name)
        return _decode_object(resource, await self.request("PUT", path, query, value, seconds=seconds))

    async def patch(
        self,
        resource: Resource[T],
        value: Mapping[str, Any],
        name: str,
        namespace: str | None = None,
        manager: str = FIELD_MANAGER,
        subresource: str | None = None,
    ) -> T:
        """Send a JSON merge patch (RFC 7386). A separate `manager` keeps its own time in managedFields.

        `subresource` is `status`, for example; None: the object itself.
        """
        query = {"fieldManager": manager}
        path = resource.build_path(namespace, name, subresource)
        return _decode_object(
            resource, await self.request("PATCH", path, query, value, content_type="application/merge-patch+json")
        )

    async def apply_json_patch(
        self, resource: Resource[T], operations: Sequence[Mapping[str, Any]], name: str, namespace: str | None = None
    ) -> T:
        """Apply a JSON Patch (RFC 6902) of `operations`. A failed `test` is a StatusError 422: nothing is changed."""
        query = {"fieldManager": FIELD_MANAGER}
        path = resource.build_path(namespace, name)
        content_type = "application/json-patch+json"
        return _decode_object(resource, await self.request("PATCH", path, query, operations, content_type=content_type))

    async def apply(
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
        """Apply an object server-side as field manager `transom`.

        Without `force`, a field of another manager raises Conflict. `subresource` is `status`, for example; None: the
        object itself. Two parts of Transom that write the same object independently have a `manager` each: neither removes
        the other's fields.
        """
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        path = resource.build_path(namespace, name, subresource)
        return _decode_object(
            resource, await self.request("PATCH", path, query, value, content_type="application/apply-patch+yaml")
        )

    async def delete(self, resource: Resource[Any], name: str, namespace: str | None = None, uid: str | None = None) -> None:
        """Delete an object; with `uid` only that one. Raises NotFound, Conflict."""
        body = {"preconditions": {"uid": uid}} if uid else None
        await self.request("DELETE", resource.build_path(namespace, name), None, body)

    async def execute(self, namespace: str, pod: str, command: Sequence[str], seconds: float = TIMEOUT) -> CommandResult:
        """Execute a command in the only container of a pod, within `seconds`, and return its output. Raises ApiError.

        The request uses WebSocket, which API servers support by default from 1.30 on (KEP-4006) and may refuse to clients
        that cannot both `get` and `create` pods/exec.
        """
        path = PODS.build_path(namespace, pod, "exec")
        query = [("stdout", "true"), ("stderr", "true"), *(("command", word) for word in command)]
        self.connection.renew()
        if self._permit is not None:
            seconds = min(seconds, self._permit())
        with TransportErrors(f"GET {path}"):
            async with (
                asyncio.timeout(seconds),
                self.connection.transport.open_websocket(path, query, EXEC_PROTOCOLS) as opened,
            ):
                if isinstance(opened, int):
                    raise build_status_error(opened, "", f"{path}: HTTP {opened}")
                return await read_output(opened)

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
        limit: int | None = None,
    ) -> bytes:
        """Send one request and return the answer's bytes; `body` is sent as JSON. Raises ApiError.

        `method` and `path` are HTTP's. `seconds` include the `retries` after a 429. Without `retries`, a 429 is the answer,
        as for an eviction. An answer of more than `limit` bytes raises ResponseTooLarge.
        """
        self.connection.renew()
        content = msgspec.json.encode(body) if body is not None else None
        permit = self._permit if method != "GET" else None
        if permit is not None:
            seconds = min(seconds, permit())
        with TransportErrors(f"{method} {path}"):
            async with asyncio.timeout(seconds):
                while True:
                    answer = await self._send_request(Request(method, path, query, content, content_type, limit))
                    if 200 <= answer.status < 300:
                        self.refusals.note_success(method, path)
                        self.refused_writes.note_success(method, path)
                        return answer.body
                    error = parse_error_response(answer.body, answer.status, answer.headers.get("Retry-After"))
                    lacks_right = answer.status == HTTPStatus.FORBIDDEN and self.refusals.note_refusal(method, path, str(error))
                    if not lacks_right:
                        self.refused_writes.note_refusal(method, path, error)
                    wait = error.retry_after
                    if answer.status != 429 or wait is None or wait > _MAX_RETRY_AFTER or not retries:
                        raise error
                    retries -= 1
                    await asyncio.sleep(wait)
                    if permit is not None:
                        permit()

    async def _send_request(self, request: Request) -> HttpResponse:
        began, outcome = time.monotonic(), NO_ANSWER
        try:
            answer = await self.connection.transport.request(request)
            outcome = str(answer.status)
        finally:
            self.connection.answers[outcome] += 1
        taken = round(time.monotonic() - began, 3)
        _log.debug(
            "request", method=request.method, path=request.path, query=request.query, status=answer.status, seconds=taken
        )
        return answer


def build_history_subject(resource: Resource[Any]) -> str:
    """Return the name of a kind in the history of a server."""
    return f"{resource.plural} of {resource.group or 'v1'}"


def _decode_object(resource: Resource[T], body: bytes) -> T:
    read = decode_object(resource, body)
    if read.object is None:
        raise UnreadableObject(f"{resource.kind}: {read.malformed.problem if read.malformed else ''}")
    if not read.object.metadata.name:
        raise UnreadableObject(f"{resource.kind}: the answer is an object without a name: no API server sent it")
    return read.object


def build_event_error(event: WatchEvent) -> ApiError:
    """Build the error from an ERROR event of a watch."""
    return parse_error_response(bytes(event.object), 500)


async def _iter_events(content: aiohttp.StreamReader, what: str) -> AsyncIterator[list[WatchEvent]]:
    rest = b""
    with TransportErrors(what):
        async for chunk in content.iter_any():
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            if len(rest) > _MAX_LINE:
                raise ConnectionFailed(f"{what}: a line of the watch is longer than {_MAX_LINE:,} bytes")
            try:
                events = [await decode_envelope(_decode_event, line) for line in lines if line]
            except msgspec.DecodeError as error:
                raise ConnectionFailed(f"{what}: a line of the watch cannot be read: {error}") from error
            if events:
                yield events
    if rest:
        raise ConnectionFailed(f"{what}: the watch was cut in the middle of a line")


def _build_selectors(labels: str, fields: str) -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
