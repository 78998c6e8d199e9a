"""Requests to an API server: each with a deadline of its own, each failure an ApiError."""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Generic

import aiohttp
import httpx2
import msgspec
import structlog

from transom.kube.connection import NO_ANSWER, Connection
from transom.kube.errors import AnswerTooLarge, ApiError, ConfigurationError, ConnectionFailed, Unreadable, status_error
from transom.kube.exchange import Answer, Request
from transom.kube.groups import Groups
from transom.kube.nesting import shortened, too_deep
from transom.kube.objects import T
from transom.kube.reading import Malformed, around, decoded, read_object
from transom.kube.resources import Resource

_log: Final = structlog.get_logger("transom.kube.client")
FIELD_MANAGER: Final = "transom"
TIMEOUT: Final = 30.0
"""Seconds for one request and its answer, however slowly either comes."""
PAGE: Final = 500
_MAX_PAGE: Final = 24 << 20
"""Bytes of a page of a list. One of 500 objects has up to 15 MB, unless somebody made large ones."""
_MAX_LINE: Final = 8 << 20
_MAX_FOREIGN: Final = 4 << 20
"""Bytes of an answer of another cluster's API server. Objects have up to 1.5 MiB."""
_MAX_FOREIGN_VALUES: Final = 100_000
"""In such an answer: each takes up to fifty times the memory of its text."""
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


class _Cause(msgspec.Struct, frozen=True):
    """metav1.StatusCause."""

    message: str | None = None


class _Details(msgspec.Struct, frozen=True):
    """metav1.StatusDetails."""

    causes: list[_Cause] | None = None


class _Status(msgspec.Struct, frozen=True):
    """metav1.Status."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None

    @property
    def whole_message(self) -> str:
        """With the causes that it does not name itself: of an eviction that is refused, the PodDisruptionBudget."""
        said = self.message or ""
        causes = (cause.message for cause in (self.details.causes if self.details else None) or ())
        return " ".join((said, *(cause for cause in causes if cause and cause not in said)))


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


_decode_page: Final = msgspec.json.Decoder(_Page).decode
_decode_status: Final = msgspec.json.Decoder(_Status).decode
_decode_event: Final = msgspec.json.Decoder(WatchEvent).decode


class Client:
    """The requests that Transom makes. `permit` guards every write; without one nothing does."""

    def __init__(self, connection: Connection, permit: Permit | None = None, groups: Groups | None = None) -> None:
        self.connection = connection
        self.groups = groups or Groups(self.get_json)
        self._permit = permit

    def guarded(self, permit: Permit) -> "Client":
        """The same connection, on which a write is only begun, and only lasts, while `permit` allows it."""
        return Client(self.connection, permit, self.groups)

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        """One object. Raises NotFound."""
        return _decoded(resource, await self.request("GET", resource.path(namespace, name)))

    async def get_json(self, path: str) -> Any:
        """Whatever is at a path, as plain values. Raises Unreadable."""
        body = await self.request("GET", path)
        try:
            return decoded(msgspec.json.decode, shortened(body) if too_deep(body) else body)
        except msgspec.DecodeError as error:
            raise Unreadable(f"{path}: {error}") from error

    async def list_objects(
        self, resource: Resource[T], namespace: str | None = None, *, labels: str = "", fields: str = "", page: int = PAGE
    ) -> Listing[T]:
        """All objects, page by page. An object that does not fit is in `malformed` and spoils no other. Raises Gone."""
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
        """The changes since a version, in the batches that they come in; the server ends it after `seconds`.

        Raises Gone where the version is too old, ConnectionFailed where the line is cut or silent for `inactivity` seconds.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        } | _selectors(labels, fields)
        self.connection.renew()
        exchange = self.connection.exchange
        assert exchange is not None  # the API server of another cluster is asked, and not watched
        async with AsyncExitStack() as open_:
            with _ApiErrors(resource.plural):
                async with asyncio.timeout(_WATCH_HEADERS_SECONDS):
                    response = await open_.enter_async_context(exchange.stream(resource.path(namespace), query, inactivity))
                if response.status != 200:
                    raise _error(await response.read(), response.status, _seconds(response.headers.get("Retry-After")))
            yield _events(response.content, resource.plural)

    async def create(self, resource: Resource[T], value: Mapping[str, Any], namespace: str | None = None) -> T:
        """Make an object. Raises Conflict where it exists."""
        query = {"fieldManager": FIELD_MANAGER}
        return _decoded(resource, await self.request("POST", resource.path(namespace), query, value))

    async def replace(
        self, resource: Resource[T], value: Mapping[str, Any], name: str, namespace: str | None = None, seconds: float = TIMEOUT
    ) -> T:
        """Put an object in place of the version that `value` names. Raises Conflict where that is no longer the current one."""
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
        """A JSON Patch (RFC 6902). A `test` that does not hold is a StatusError 422: nothing was changed."""
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

        What two parts of Transom write of one object, each by itself, has a `manager` for each: neither takes the other's away.
        """
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        path = resource.path(namespace, name, subresource)
        return _decoded(resource, await self.request("PATCH", path, query, value, content_type="application/apply-patch+yaml"))

    async def delete(self, resource: Resource[Any], name: str, namespace: str | None = None, uid: str | None = None) -> None:
        """Delete an object; with `uid` only that one. Raises NotFound, Conflict."""
        body = {"preconditions": {"uid": uid}} if uid else None
        await self.request("DELETE", resource.path(namespace, name), None, body)

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
        """One request; `seconds` include the retries of what the server refused unseen (429). Raises ApiError.

        `most` are the bytes of an answer that is taken: AnswerTooLarge.

        Where a 429 is the answer itself, as an eviction's is, there are to be no `retries`.
        """
        self.connection.renew()
        content = msgspec.json.encode(body) if body is not None else None
        if self._permit is not None and method != "GET":
            seconds = min(seconds, self._permit())
        with _ApiErrors(f"{method} {path}"):
            async with asyncio.timeout(seconds):
                for attempt in range(retries + 1):
                    if attempt and self._permit is not None and method != "GET":
                        self._permit()
                    began = time.monotonic()
                    answer = await self._counted(Request(method, path, query, content, content_type, most))
                    taken = round(time.monotonic() - began, 3)
                    _log.debug("request", method=method, path=path, query=query, status=answer.status, seconds=taken)
                    if 200 <= answer.status < 300:
                        return answer.body
                    error = _error(answer.body, answer.status, _seconds(answer.retry_after))
                    wait = error.retry_after
                    if answer.status != 429 or wait is None or wait > _MAX_RETRY_AFTER or attempt == retries:
                        raise error
                    await asyncio.sleep(wait)
        raise AssertionError("unreachable")  # pragma: no cover

    async def _counted(self, asked: Request) -> Answer:
        said = NO_ANSWER
        try:
            answer = await self._exchange(asked)
            said = str(answer.status)
        finally:
            self.connection.answers[said] += 1
        return answer

    async def _exchange(self, asked: Request) -> Answer:
        if self.connection.exchange is not None:
            return await self.connection.exchange.request(asked)
        headers = {"Content-Type": asked.content_type} if asked.content is not None else None
        name = self.connection.server_name
        extensions = {"sni_hostname": name} if name else None
        answered = self.connection.http.stream(
            asked.method, asked.path, params=asked.query, content=asked.content, headers=headers, extensions=extensions
        )
        async with answered as response:
            return Answer(response.status_code, response.headers.get("Retry-After"), await _foreign_body(response))


async def _foreign_body(response: httpx2.Response) -> bytes:
    """What another cluster's server answers, which may be anybody. Raises ConnectionFailed where it is too much."""
    if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise ConnectionFailed("the answer is compressed, though the request allows none that is")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _MAX_FOREIGN:
            raise ConnectionFailed(f"the answer has more than {_MAX_FOREIGN:,} bytes")
    if sum(map(body.count, (b"{", b"[", b","))) > _MAX_FOREIGN_VALUES:
        raise ConnectionFailed(f"the answer has more than {_MAX_FOREIGN_VALUES:,} values")
    return bytes(body)


def _decoded(resource: Resource[T], body: bytes) -> T:
    read = read_object(resource, body)
    if read.object is None:
        raise Unreadable(f"{resource.kind}: {read.malformed.problem if read.malformed else ''}")
    return read.object


def status_of(event: WatchEvent) -> ApiError:
    """The error that an ERROR event of a watch brings."""
    return _error(bytes(event.object), 500, None)


async def _events(content: aiohttp.StreamReader, what: str) -> AsyncIterator[list[WatchEvent]]:
    rest = b""
    with _ApiErrors(what):
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


class _ApiErrors:
    """Everything that can happen on the way to the server and back, as ConnectionFailed."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, TimeoutError | httpx2.TimeoutException):
            raise ConnectionFailed(f"{self._what}: no answer in time") from error
        if isinstance(error, httpx2.InvalidURL | UnicodeError | OverflowError):
            # a name or a port that no resolver takes
            raise ConnectionFailed(f"{self._what}: the server's address is none") from error
        if isinstance(error, httpx2.HTTPError | httpx2.StreamError | aiohttp.ClientError | OSError):
            raise ConnectionFailed(f"{self._what}: {_way(error)}") from error
        if isinstance(error, ConfigurationError):
            raise ConnectionFailed(f"{self._what}: {error}") from error


def _way(error: Exception) -> str:
    """What is wrong on the way to the server."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        told = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)
        return f"certificate verify failed: {told}: it is another server, or the kubeconfig has another CA"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"{error.host} cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server ended the connection without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer was cut before its end"
    if isinstance(error, aiohttp.ClientResponseError):
        # of the parser: a status that the server sends is no exception
        return "what answers there is no HTTP server"
    return str(error) or "the connection failed"


def _error(body: bytes, code: int, retry_after: float | None) -> ApiError:
    try:
        status = decoded(_decode_status, body)
    except msgspec.DecodeError:
        # a proxy or a server that is not ready answers in its own words: the first of them
        told = " ".join(body[:200].decode(errors="replace").split())
        if told.startswith("<") or 300 <= code < 400:
            told = f"HTTP {code} and a page for browsers, which is no API server's answer: a proxy or a login stands before it"
        status = _Status(None, None, told)
    return status_error(status.code or code, status.reason or "", status.whole_message, retry_after)


def _seconds(header: str | None) -> float | None:
    """`Retry-After`: seconds or an HTTP date (RFC 9110, section 10.2.3)."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(header)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, when.timestamp() - datetime.fromtimestamp(time.time(), UTC).timestamp())


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
