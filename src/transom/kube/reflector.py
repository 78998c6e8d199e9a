"""Keeps a store like the server: list, then watch from that version on; whatever happens, it ends up right again.

After a cut, the watch continues from the last version, so nothing is lost and nothing is listed again. If that version is
too old (410), everything is listed, and missing objects are reported as deleted. A server that sends nothing at all,
not even bookmarks, is left after `inactivity`. A missing kind (404) is not an error: the store is empty until it exists.
"""

import asyncio
import random
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, Generic

import msgspec
import structlog

from transom.kube.api_versions import PREFERRED, KindAbsent, resolve_api_version
from transom.kube.backoff import Backoff, wait_for_event
from transom.kube.client import Client, WatchEvent, build_event_error, build_history_subject
from transom.kube.decoding import MalformedObject, decode_object, parse_metadata
from transom.kube.errors import ApiError, Gone, NotFound, StatusError
from transom.kube.objects import Metadata, T
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey, Store

_log: Final = structlog.get_logger("transom.kube.reflector")


class ReflectorTimings(msgspec.Struct, frozen=True):
    """How a reflector takes its time, in seconds."""

    backoff: Backoff = Backoff(0.8, 30.0)
    absent: Backoff = Backoff(5.0, 30.0)
    """While the kind does not exist."""
    watch: int = 300
    """The server ends a watch after this to twice as long: connections are spread over its replicas again."""
    inactivity: float = 150.0
    """The server sends bookmarks about every minute."""
    least: float = 1.0
    """Between two beginnings of a watch, however well it went: a server that ends each at once is not called in a loop."""


PACE: Final = ReflectorTimings()


class Reflector(Generic[T]):
    """One kind, one store.

    `synced` is set once the store has been filled for the first time, or the kind is known to be absent. An `optional` kind
    counts as absent while the right to read it is missing. The right is then missing like others, unless the roles grant it
    only on servers with the group `granted_with`, and the server does not have it.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        store: Store[T],
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        timings: ReflectorTimings = PACE,
        draw: Callable[[], float] = random.random,
        on_malformed: Callable[[MalformedObject], None] = lambda _: None,
        optional: bool = False,
        granted_with: str = "",
    ) -> None:
        self._optional, self._granted_with = optional, granted_with
        self._client = client
        self._asked = resource
        self._resource = resource
        self._store = store
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._pace = timings
        self._draw = draw
        self._failures = 0
        self._version: str | None = None
        self._on_malformed = on_malformed
        self.synced = asyncio.Event()
        self.present = False
        """Whether the server has this kind."""
        self.refusal = ""
        """Why it may not be read; empty where it may, or where that is not known."""
        self.error = ""
        """Why the last request failed; empty once one succeeds."""
        self.decided = asyncio.Event()
        """Set once it is synced, or refused: who waits for it knows then whether that can take long."""
        self._retry_now = asyncio.Event()
        self.lists = 0
        self.watches = 0
        """How often each was begun: for the metrics."""

    @property
    def resource(self) -> Resource[T]:
        """The kind in the version that is followed; until one is, in the one that was asked for."""
        return self._resource

    async def run(self) -> None:
        """Never returns; cancel it to stop. Faults of the server are waited out, others are raised."""
        while True:
            try:
                await self._choose_version()
                if self._version is None:
                    await self._list()
                await self._watch()
            except NotFound as error:
                if self._asked.version == PREFERRED and not isinstance(error, KindAbsent):
                    # this version is gone; whether the kind is, its other versions tell
                    self._version = None
                    await self._wait(self._pace.backoff, error)
                    continue
                self._handle_missing_kind()
                await self._wait_for_api_group(error)
            except Gone as error:
                self._version = None
                # the first time at once; a server for which every version is too old is not listed in a loop
                if self._failures:
                    await self._wait(self._pace.backoff, error)
                else:
                    self._failures = 1
            except ApiError as error:
                if self._optional and isinstance(error, StatusError) and error.code == HTTPStatus.FORBIDDEN:
                    # the right is not granted yet: retried like a kind that does not exist, or once a review says that it is
                    if self._granted_with and not await self._has_group(self._granted_with):
                        self._client.refusals.forget_refused_request(str(error))
                    self._handle_missing_kind()
                    self.refusal = str(error)
                    await self._wait(self._pace.absent, error)
                    continue
                if isinstance(error, StatusError) and error.code == HTTPStatus.FORBIDDEN:
                    self.refusal = str(error)
                    self.decided.set()
                await self._wait(self._pace.backoff, error)

    def retry(self) -> None:
        """End the wait after a failure: its cause is gone."""
        self._retry_now.set()

    def forget_resource_version(self) -> None:
        """List everything at the next start: the version is one of another history."""
        self._version = None

    async def _choose_version(self) -> None:
        resource = await resolve_api_version(self._client.groups.fetch_shared_json, self._asked)
        if resource != self._resource:
            self._resource, self._version = resource, None

    async def _list(self) -> None:
        self.lists += 1
        listing = await self._client.list_objects(
            self._resource, self._namespace, labels=self._labels, fields=self._fields, memory_limit=self._store.bound
        )
        self._store.replace(listing.items, listing.malformed, listing.resource_version)
        for item in listing.malformed:
            self._report_malformed(item)
        self._version = listing.resource_version
        self.present, self.refusal, self.error = True, "", ""
        self.synced.set()
        self._client.watch_failures.note_success(self._resource.kind)
        self.decided.set()
        _log.debug("listed", kind=self._resource.kind, objects=len(listing.items), version=self._version)

    async def _watch(self) -> None:
        began = asyncio.get_running_loop().time()
        self.watches += 1
        seconds = int(self._pace.watch * (1 + self._draw()))
        watch = self._client.watch(
            self._resource,
            self._version or "",
            self._namespace,
            seconds=seconds,
            inactivity=self._pace.inactivity,
            labels=self._labels,
            fields=self._fields,
        )
        async with watch as batches:
            self.refusal = self.error = ""
            self._client.watch_failures.note_success(self._resource.kind)
            async for events in batches:
                for event in events:
                    self._handle_watch_event(event)
                self._failures = 0
        if self._store.lacks_room:
            # what was refused may fit now
            self._version = None
        passed = asyncio.get_running_loop().time() - began
        if passed < self._pace.least:
            await asyncio.sleep(self._pace.least - passed)

    def _handle_watch_event(self, event: WatchEvent) -> None:
        if event.type == "ERROR":
            raise build_event_error(event)
        if event.type == "BOOKMARK":
            self._record_resource_version(parse_metadata(bytes(event.object)))
            return
        read = decode_object(self._resource, event.object)
        bad = read.malformed
        named = read.object or (bad.metadata if bad is not None else Metadata())
        if event.type == "DELETED":
            self._store.remove(ObjectKey(named.metadata.namespace, named.metadata.name))
        elif event.type in ("ADDED", "MODIFIED"):
            if read.object is not None:
                self._store.put(read.object, bad)
            elif bad is not None:
                self._store.put_malformed(bad)
            if bad is not None:
                self._report_malformed(bad)
        self._record_resource_version(named)

    def _record_resource_version(self, obj: Any) -> None:
        version = obj.metadata.resource_version
        if version:
            self._version = version
            self._store.resource_version = version
            self._client.history.raise_highest_version(build_history_subject(self._resource), version)

    def _report_malformed(self, malformed: MalformedObject) -> None:
        named = malformed.metadata.metadata
        _log.warning(
            "object rejected",
            kind=self._resource.kind,
            namespace=named.namespace,
            name=named.name,
            problem=malformed.problem,
        )
        self._on_malformed(malformed)

    def _handle_missing_kind(self) -> None:
        if self.present:
            _log.warning("kind removed", kind=self._resource.kind, group=self._resource.group)
        elif not self.synced.is_set():
            # a cluster without the optional kinds is the usual one
            _log.debug("kind absent", kind=self._resource.kind, group=self._resource.group)
        self._client.watch_failures.note_success(self._resource.kind)
        self._version = None
        self.present = False
        self._store.clear()
        self.refusal = self.error = ""
        self.synced.set()
        self.decided.set()

    async def _wait_for_api_group(self, error: ApiError) -> None:
        """Until the kind may be there. Kinds of groups that the server does not have are asked for together."""
        await self._wait(self._pace.absent, error)
        while not await self._has_group(self._asked.group):
            await self._wait(self._pace.absent, error)

    async def _has_group(self, group: str) -> bool:
        return await self._client.groups.has_group(group, self._pace.absent.first)

    async def _wait(self, backoff: Backoff, error: ApiError) -> None:
        self._failures += 1
        seconds = backoff.compute_seconds(self._failures, error.retry_after)
        if not isinstance(error, NotFound) and backoff is not self._pace.absent:
            self.error = str(error)
            self._client.watch_failures.note_failure(self._resource.kind, error, seconds)
        self._retry_now.clear()
        await wait_for_event(self._retry_now, seconds)
