"""Events: what happened to an object, reported once; repetitions are counted, floods are limited.

An event that repeats within the window raises the count of the first one, less and less often (`kubectl describe` shows
`x7 over 5m`). Many different messages of one reason about one object become one event. Sending never delays or fails the work:
it is done behind its back from a bounded queue, and what cannot be sent is dropped and counted.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec
import structlog

from transom.common.escaping import escape_unprintable
from transom.kube.client import Client
from transom.kube.errors import ApiError, NotFound
from transom.kube.resources import EVENTS

_log: Final = structlog.get_logger("transom.kube.events")
COMPONENT: Final = "transom"
Type = Literal["Normal", "Warning"]
_MAX_MESSAGE: Final = 1024
_MAX_PENDING: Final = 1000
MAX_BYTES: Final = 4 << 20
"""Of the events that are remembered to count their repetitions, their messages included; as much again of what is waiting."""
_ENTRY_BYTES: Final = 1024
"""Bytes of an entry in addition to its strings: objects, timers, places in dictionaries."""
_MAX_NAME: Final = 253
"""Characters of a name, a kind or a reason: no object has a longer one (kubernetes.io, "Object Names and IDs")."""


class Regarding(msgspec.Struct, frozen=True):
    """The object that an event is about. Events on cluster-scoped objects (`namespace` None) are in namespace `default`."""

    api_version: str
    kind: str
    name: str
    namespace: str | None = None
    uid: str | None = None


class RepetitionPolicy(msgspec.Struct, frozen=True):
    """How repetitions of an event are reported, in seconds."""

    window: float = 600.0
    """A repetition after so long is a new event."""
    spacing: float = 10.0
    """Between the first two updates of a count; doubled each time up to the window."""
    similar: int = 5
    """The number of different messages of one reason about one object; further ones become one event."""


HABITS: Final = RepetitionPolicy()


class _RecordedEvent:
    """A recorded event: its name, its count, and the time of the next update to the server."""

    __slots__ = ("count", "first", "last", "last_time", "name", "next_update", "spacing", "timer")

    def __init__(self, name: str, now: float, first: str, spacing: float) -> None:
        self.name = name
        self.count = 1
        self.first = first
        self.last = first
        self.last_time = now
        self.spacing = spacing
        self.next_update = now + spacing
        self.timer: asyncio.TimerHandle | None = None


_Similar = tuple[Regarding, Type, str]
_Key = tuple[Regarding, Type, str, str]


class EventRecorder:
    """Tells events. `run` has to run for them to be sent."""

    def __init__(
        self,
        client: Client,
        *,
        instance: str = "",
        repetition_policy: RepetitionPolicy = HABITS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._instance = instance
        self._habits = repetition_policy
        self._now = now
        self._known: OrderedDict[_Key, _RecordedEvent] = OrderedDict()
        self._known_bytes = 0
        self._messages: OrderedDict[_Similar, dict[int, float]] = OrderedDict()
        """When each message was recorded last, by its hash: the texts themselves are in `_known`."""
        self._messages_bytes = 0
        self._pending_bytes = 0
        self._pending: asyncio.Queue[tuple[_Key, _RecordedEvent, bool]] = asyncio.Queue(_MAX_PENDING)
        self.dropped = 0
        """The number of events that could not be sent, for the metrics."""

    def record_normal(self, regarding: Regarding, reason: str, message: str) -> None:
        """Something went as it should. `reason` is one word in CamelCase; neither may hold a secret."""
        self._record_event(regarding, "Normal", reason, message)

    def record_warning(self, regarding: Regarding, reason: str, message: str) -> None:
        """Something that a person should look at."""
        self._record_event(regarding, "Warning", reason, message)

    async def run(self) -> None:
        """Send recorded events, until cancelled."""
        while True:
            key, known, new = await self._pending.get()
            self._pending_bytes -= _count_bytes(key)
            try:
                await self._send(key, known, new)
            except ApiError as error:
                self.dropped += 1
                _log.warning("event not sent", reason=key[2], error=str(error))
            finally:
                self._pending.task_done()

    async def drain(self, seconds: float = 5.0) -> None:
        """Wait until the recorded events have been sent, at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._pending.join()
        except TimeoutError:
            _log.info("events not sent in time", waiting=self._pending.qsize())

    def _record_event(self, regarding: Regarding, type_: Type, reason: str, message: str) -> None:
        if any(len(text) > _MAX_NAME for text in (*_list_identity_fields(regarding), reason)):
            # no object has such a name: the text is not worth the memory
            self.dropped += 1
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        message = self._limit_similar_messages((regarding, type_, reason), _shorten_message(escape_unprintable(message)), now)
        key = (regarding, type_, reason, message)
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        known = self._known.get(key)
        if known is None or now - known.last_time > self._habits.window:
            name = f"{regarding.name[:200]}.{secrets.token_hex(8)}"
            if known is None:
                self._known_bytes += _count_bytes(key)
            known = self._known[key] = _RecordedEvent(name, now, stamp, self._habits.spacing)
            self._known.move_to_end(key)
            self._evict_oldest_events()
            self._enqueue(key, known, True)
            return
        known.count += 1
        known.last, known.last_time = stamp, now
        self._known.move_to_end(key)
        if known.timer is None:
            known.timer = loop.call_at(max(now, known.next_update), self._enqueue_count_update, key, known)

    def _limit_similar_messages(self, similar: tuple[Regarding, Type, str], message: str, now: float) -> str:
        """Return the message, or one that replaces many similar ones."""
        if similar not in self._messages:
            self._messages_bytes += _count_bytes(similar)
        messages = self._messages.setdefault(similar, {})
        self._messages.move_to_end(similar)
        for old in [text for text, when in messages.items() if now - when > self._habits.window]:
            del messages[old]
        digest = hash(message)
        if digest not in messages and len(messages) >= self._habits.similar:
            return f"{similar[2]} happened many times, each with another message: the log and the status have them"
        messages[digest] = now
        return message

    def _enqueue_count_update(self, key: _Key, event: _RecordedEvent) -> None:
        event.timer = None
        event.spacing = min(event.spacing * 2, self._habits.window)
        event.next_update = asyncio.get_running_loop().time() + event.spacing
        self._enqueue(key, event, False)

    def _enqueue(self, key: _Key, event: _RecordedEvent, new: bool) -> None:
        size = _count_bytes(key)
        if self._pending.full() or self._pending_bytes + size > MAX_BYTES:
            self.dropped += 1
            return
        self._pending_bytes += size
        self._pending.put_nowait((key, event, new))

    def _evict_oldest_events(self) -> None:
        while self._known_bytes > MAX_BYTES // 2:
            key, known = self._known.popitem(last=False)
            self._known_bytes -= _count_bytes(key)
            if known.timer is not None:
                known.timer.cancel()
        while self._messages_bytes > MAX_BYTES // 2:
            similar, _ = self._messages.popitem(last=False)
            self._messages_bytes -= _count_bytes(similar)

    async def _send(self, key: _Key, event: _RecordedEvent, new: bool) -> None:
        namespace = key[0].namespace or "default"
        if not new:
            change = {"count": event.count, "lastTimestamp": event.last}
            try:
                await self._client.patch(EVENTS, change, event.name, namespace)
            except NotFound:
                # events live for an hour: this one is created again
                new = True
        if new:
            await self._client.create(EVENTS, self._build_event(key, event, namespace), namespace)

    def _build_event(self, key: _Key, event: _RecordedEvent, namespace: str) -> dict[str, Any]:
        regarding, type_, reason, message = key
        involved = {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "name": regarding.name,
            "namespace": regarding.namespace,
            "uid": regarding.uid,
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event.name, "namespace": namespace},
            "involvedObject": {field: value for field, value in involved.items() if value is not None},
            "type": type_,
            "reason": reason,
            "message": message,
            "count": event.count,
            "firstTimestamp": event.first,
            "lastTimestamp": event.last,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._instance,
        }


def _shorten_message(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + "…"


def _list_identity_fields(regarding: Regarding) -> tuple[str, ...]:
    return (regarding.api_version, regarding.kind, regarding.name, regarding.namespace or "", regarding.uid or "")


def _count_bytes(key: _Key | _Similar) -> int:
    """Return how much memory an entry takes, four bytes for each character."""
    return _ENTRY_BYTES + 4 * sum(map(len, (*_list_identity_fields(key[0]), *key[1:])))
