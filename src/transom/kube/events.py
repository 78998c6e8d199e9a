"""Events: what happened to an object, told once; repetitions are counted, floods are dammed.

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

from transom.kube import ApiError, NotFound
from transom.kube.client import Client
from transom.kube.resources import EVENTS
from transom.shown import shown

_log: Final = structlog.get_logger("transom.kube.events")
COMPONENT: Final = "transom"
Type = Literal["Normal", "Warning"]
_MAX_MESSAGE: Final = 1024
_MAX_PENDING: Final = 1000
_MAX_KNOWN: Final = 4096


class Regarding(msgspec.Struct, frozen=True):
    """The object that an event is about. Events on cluster-scoped objects (`namespace` None) are in namespace `default`."""

    api_version: str
    kind: str
    name: str
    namespace: str | None = None
    uid: str | None = None


class Habits(msgspec.Struct, frozen=True):
    """How repetitions are told, in seconds."""

    window: float = 600.0
    """A repetition after so long is a new event."""
    spacing: float = 10.0
    """Between the first two updates of a count; doubled each time up to the window."""
    similar: int = 5
    """So many different messages of one reason about one object are told; the next ones are one event."""


HABITS: Final = Habits()


class _Known:
    """An event that was told: its name, how often it happened, and when the server is told the next time."""

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


_Key = tuple[Regarding, Type, str, str]


class EventRecorder:
    """Tells events. `run` has to run for them to be sent."""

    def __init__(
        self,
        client: Client,
        *,
        instance: str = "",
        habits: Habits = HABITS,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client = client
        self._instance = instance
        self._habits = habits
        self._now = now
        self._known: OrderedDict[_Key, _Known] = OrderedDict()
        self._messages: OrderedDict[tuple[Regarding, Type, str], dict[str, float]] = OrderedDict()
        self._pending: asyncio.Queue[tuple[_Key, _Known, bool]] = asyncio.Queue(_MAX_PENDING)
        self.dropped = 0
        """How many could not be told: for the metrics."""

    def normal(self, regarding: Regarding, reason: str, message: str) -> None:
        """Something went as it should. `reason` is one word in CamelCase; neither may hold a secret."""
        self._tell(regarding, "Normal", reason, message)

    def warning(self, regarding: Regarding, reason: str, message: str) -> None:
        """Something that a person should look at."""
        self._tell(regarding, "Warning", reason, message)

    async def run(self) -> None:
        """Send what was told, until cancelled."""
        while True:
            key, known, new = await self._pending.get()
            try:
                await self._send(key, known, new)
            except ApiError as error:
                self.dropped += 1
                _log.warning("event not sent", reason=key[2], error=str(error))
            finally:
                self._pending.task_done()

    async def drain(self, seconds: float = 5.0) -> None:
        """Wait until what was told has been sent, but not for long."""
        try:
            async with asyncio.timeout(seconds):
                await self._pending.join()
        except TimeoutError:
            _log.info("events not sent in time", waiting=self._pending.qsize())

    def _tell(self, regarding: Regarding, type_: Type, reason: str, message: str) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        message = self._combined((regarding, type_, reason), _shortened(shown(message)), now)
        key = (regarding, type_, reason, message)
        stamp = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        known = self._known.get(key)
        if known is None or now - known.last_time > self._habits.window:
            name = f"{regarding.name[:200]}.{secrets.token_hex(8)}"
            known = self._known[key] = _Known(name, now, stamp, self._habits.spacing)
            self._known.move_to_end(key)
            self._forget_old()
            self._enqueue(key, known, True)
            return
        known.count += 1
        known.last, known.last_time = stamp, now
        self._known.move_to_end(key)
        if known.timer is None:
            known.timer = loop.call_at(max(now, known.next_update), self._update, key, known)

    def _combined(self, similar: tuple[Regarding, Type, str], message: str, now: float) -> str:
        """The message, or the one that stands for many."""
        messages = self._messages.setdefault(similar, {})
        self._messages.move_to_end(similar)
        for old in [text for text, when in messages.items() if now - when > self._habits.window]:
            del messages[old]
        if message not in messages and len(messages) >= self._habits.similar:
            return f"{similar[2]} happened many times, each with another message: the log and the status have them"
        messages[message] = now
        return message

    def _update(self, key: _Key, known: _Known) -> None:
        known.timer = None
        known.spacing = min(known.spacing * 2, self._habits.window)
        known.next_update = asyncio.get_running_loop().time() + known.spacing
        self._enqueue(key, known, False)

    def _enqueue(self, key: _Key, known: _Known, new: bool) -> None:
        try:
            self._pending.put_nowait((key, known, new))
        except asyncio.QueueFull:
            self.dropped += 1

    def _forget_old(self) -> None:
        while len(self._known) > _MAX_KNOWN:
            _, known = self._known.popitem(last=False)
            if known.timer is not None:
                known.timer.cancel()
        while len(self._messages) > _MAX_KNOWN:
            self._messages.popitem(last=False)

    async def _send(self, key: _Key, known: _Known, new: bool) -> None:
        namespace = key[0].namespace or "default"
        if not new:
            change = {"count": known.count, "lastTimestamp": known.last}
            try:
                await self._client.patch(EVENTS, change, known.name, namespace)
            except NotFound:
                # events live for an hour: this one is told anew
                new = True
        if new:
            await self._client.create(EVENTS, self._event(key, known, namespace), namespace)

    def _event(self, key: _Key, known: _Known, namespace: str) -> dict[str, Any]:
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
            "metadata": {"name": known.name, "namespace": namespace},
            "involvedObject": {field: value for field, value in involved.items() if value is not None},
            "type": type_,
            "reason": reason,
            "message": message,
            "count": known.count,
            "firstTimestamp": known.first,
            "lastTimestamp": known.last,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._instance,
        }


def _shortened(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else message[: _MAX_MESSAGE - 1] + "…"
