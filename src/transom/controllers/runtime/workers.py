"""The workers of a term: each takes a key, has it reconciled, and says how it went."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import structlog
from structlog.contextvars import bound_contextvars

from transom.controllers.runtime.controller import Controller
from transom.controllers.runtime.leadership import Leadership
from transom.hosts.faults import frames
from transom.kube.errors import ApiError
from transom.kube.lease import LeaseLost
from transom.kube.queue import QueueClosed
from transom.kube.store import ObjectKey

_log: Final = structlog.get_logger("transom.workers")


Trace = Callable[[ObjectKey], AbstractContextManager[object]]
"""What lasts as long as a key is worked on."""


async def work(controller: Controller, leadership: Leadership, trace: Trace = nullcontext) -> None:
    """One worker: until the queue is closed. Raises LeaseLost; a key that was not finished is in the queue again then."""
    queue = controller.queue
    while True:
        try:
            key = await queue.take()
        except QueueClosed:
            return
        with bound_contextvars(key="/".join(part for part in key if part)):
            await _one(controller, key, leadership, trace)


async def _one(controller: Controller, key: ObjectKey, leadership: Leadership, trace: Trace) -> None:
    queue = controller.queue
    try:
        with trace(key):
            outcome = await controller.reconcile(key, leadership)
    except (LeaseLost, asyncio.CancelledError):
        queue.add(key)
        queue.done(key)
        raise
    except ApiError as error:
        _log.warning("not done", error=str(error) or type(error).__name__)
        queue.done(key, failed=True, at_least=error.retry_after)
    except Exception as error:  # noqa: BLE001  # one key's trouble is its own
        # what an exception says may quote a host, or a Secret
        _log.error("a fault of Transom itself; the other keys go on", trace="\n".join(frames(error)))
        queue.done(key, failed=True)
    else:
        queue.done(key, failed=outcome.failed, again=outcome.again)
