"""What a controller is, the leadership that it works with, and the work on its keys."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec
import structlog
from structlog.contextvars import bound_contextvars

from transom.hosts.errors import iter_frames
from transom.hosts.owner import Owner
from transom.kube.client import Client, Permit
from transom.kube.errors import ApiError
from transom.kube.events import EventRecorder
from transom.kube.lease import LeaseLost
from transom.kube.queue import KeyQueue, QueueClosed
from transom.kube.store import ObjectKey

_log: Final = structlog.get_logger("transom.workers")


@dataclass(frozen=True)
class Leadership:
    """`client` and `recorder` write only while the lease is held; `permit` raises LeaseLost from then on.

    `owner` is the owner of hosts; its generation is the lease's, so that a host refuses earlier holders.
    """

    client: Client
    recorder: EventRecorder
    permit: Permit
    owner: Owner


class Result(msgspec.Struct, frozen=True):
    """What became of a key. Where it `failed`, it is tried again after a backoff, else looked at again in `again` seconds."""

    failed: bool = False
    again: float | None = None


class Controller(Protocol):
    """What has keys to be worked on: each is (namespace or None, name)."""

    queue: KeyQueue[ObjectKey]

    def subscribe(self) -> None:
        """Follow the stores, which have been filled, and enqueue the existing objects."""
        ...

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Work on one key. An exception affects only this key, except for LeaseLost, which ends the term."""
        ...


Trace = Callable[[ObjectKey], AbstractContextManager[object]]
"""What lasts as long as a key is worked on."""


async def run_workers(controller: Controller, leadership: Leadership, max_concurrent: int, trace: Trace = nullcontext) -> None:
    """Work on a controller's keys, on `max_concurrent` at once and on those that rest, until the queue is closed.

    `trace` lasts as long as each. Raises LeaseLost where `leadership` ends; what was not finished is in the queue again then.
    """
    queue = controller.queue

    async def reconcile_next() -> None:
        # the task that works on a key takes it itself: one that is cancelled before it begins would leave the key taken
        try:
            key = await queue.take(max_concurrent)
        except QueueClosed:
            return
        group.create_task(reconcile_next())
        with bound_contextvars(key="/".join(part for part in key if part)):
            await _reconcile_key(controller, key, leadership, trace)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(reconcile_next())
    except BaseExceptionGroup as ended:
        raise ended.exceptions[0] from None


async def _reconcile_key(controller: Controller, key: ObjectKey, leadership: Leadership, trace: Trace) -> None:
    queue = controller.queue
    try:
        with trace(key):
            outcome = await controller.reconcile(key, leadership)
    except (LeaseLost, asyncio.CancelledError):
        queue.add(key)
        queue.finish(key)
        raise
    except ApiError as error:
        _log.warning("not done", error=str(error) or type(error).__name__)
        queue.finish(key, failed=True, min_backoff=error.retry_after)
    except Exception as error:  # noqa: BLE001  # one key's trouble is its own
        # what an exception says may quote a host, or a Secret
        _log.error("internal error; the other keys continue", trace="\n".join(iter_frames(error)))
        queue.finish(key, failed=True)
    else:
        queue.finish(key, failed=outcome.failed, requeue_after=outcome.again)
