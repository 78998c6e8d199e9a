"""Keeps a store like the server: list, then watch from that version on; whatever happens, it ends up right again.

After a cut the watch goes on from the last version seen, so nothing is lost and nothing is listed again. Where that version is
too old (410), everything is listed, and what is missing from the list is told as deleted. A server that sends nothing at all,
not even bookmarks, is left after `inactivity`. A kind that is not there (404) is no error: the store is empty until it appears.
"""

import asyncio
import random
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, Generic

import msgspec
import structlog

from transom.kube import ApiError, Gone, NotFound, StatusError
from transom.kube.backoff import Backoff
from transom.kube.client import Client, WatchEvent, status_of
from transom.kube.objects import Metadata, T
from transom.kube.reading import Malformed, metadata_of, read_object
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey, Store
from transom.kube.versions import PREFERRED, KindAbsent, served

_log: Final = structlog.get_logger("transom.kube.reflector")


class ReflectorPace(msgspec.Struct, frozen=True):
    """How a reflector takes its time, in seconds."""

    backoff: Backoff = Backoff(0.8, 30.0)
    absent: Backoff = Backoff(5.0, 30.0)
    """While the kind is not there."""
    watch: int = 300
    """The server ends a watch after this to twice as long: connections are spread over its replicas again."""
    inactivity: float = 150.0
    """The server sends bookmarks about every minute."""
    least: float = 1.0
    """Between two beginnings of a watch, however well it went: a server that ends each at once is not called in a loop."""


PACE: Final = ReflectorPace()


class Reflector(Generic[T]):
    """One kind, one store.

    `synced` is set once the store has been filled for the first time, or the kind is known to be absent.
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
        pace: ReflectorPace = PACE,
        draw: Callable[[], float] = random.random,
        on_malformed: Callable[[Malformed], None] = lambda _: None,
        optional: bool = False,
    ) -> None:
        self._optional = optional
        self._client = client
        self._asked = resource
        self._resource = resource
        self._store = store
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._pace = pace
        self._draw = draw
        self._failures = 0
        self._version: str | None = None
        self._on_malformed = on_malformed
        self.synced = asyncio.Event()
        self.present = False
        """Whether the server has this kind."""
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
                self._absent()
                await self._wait_for_group(error)
            except Gone as error:
                self._version = None
                # the first time at once; a server for which every version is too old is not listed in a loop
                if self._failures:
                    await self._wait(self._pace.backoff, error)
                else:
                    self._failures = 1
            except ApiError as error:
                if self._optional and isinstance(error, StatusError) and error.code == HTTPStatus.FORBIDDEN:
                    # nobody has given the right yet: it is asked for as a kind that is not there
                    self._absent()
                    await self._wait(self._pace.absent, error)
                    continue
                await self._wait(self._pace.backoff, error)

    async def _choose_version(self) -> None:
        resource = await served(self._client.groups.answer, self._asked)
        if resource != self._resource:
            self._resource, self._version = resource, None

    async def _list(self) -> None:
        self.lists += 1
        listing = await self._client.list_objects(self._resource, self._namespace, labels=self._labels, fields=self._fields)
        self._store.replace(listing.items, listing.malformed, listing.resource_version)
        for one in listing.malformed:
            self._note(one)
        self._version = listing.resource_version
        self.present = True
        self.synced.set()
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
            async for events in batches:
                for event in events:
                    self._take(event)
                self._failures = 0
        passed = asyncio.get_running_loop().time() - began
        if passed < self._pace.least:
            await asyncio.sleep(self._pace.least - passed)

    def _take(self, event: WatchEvent) -> None:
        if event.type == "ERROR":
            raise status_of(event)
        if event.type == "BOOKMARK":
            self._progress(metadata_of(bytes(event.object)))
            return
        read = read_object(self._resource, event.object)
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
                self._note(bad)
        self._progress(named)

    def _progress(self, obj: Any) -> None:
        version = obj.metadata.resource_version
        if version:
            self._version = version
            self._store.resource_version = version

    def _note(self, malformed: Malformed) -> None:
        named = malformed.metadata.metadata
        _log.warning(
            "object does not fit",
            kind=self._resource.kind,
            namespace=named.namespace,
            name=named.name,
            problem=malformed.problem,
        )
        self._on_malformed(malformed)

    def _absent(self) -> None:
        if self.present or not self.synced.is_set():
            _log.info("kind is not there", kind=self._resource.kind, group=self._resource.group)
        self._version = None
        self.present = False
        self._store.clear()
        self.synced.set()

    async def _wait_for_group(self, error: ApiError) -> None:
        """Until the kind may be there. Kinds of groups that the server does not have are asked for together."""
        await self._wait(self._pace.absent, error)
        while not await self._client.groups.may_have(self._asked.group, self._pace.absent.first):
            await self._wait(self._pace.absent, error)

    async def _wait(self, backoff: Backoff, error: ApiError) -> None:
        self._failures += 1
        seconds = backoff.seconds(self._failures, error.retry_after)
        if not isinstance(error, NotFound) and backoff is not self._pace.absent:
            _log.warning("cannot follow", kind=self._resource.kind, error=str(error), seconds=round(seconds, 1))
        await asyncio.sleep(seconds)
