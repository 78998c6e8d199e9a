"""Many hosts side by side; one host's trouble is its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from transom.hosts.faults import Fault, fault

_Host = TypeVar("_Host")
_Result = TypeVar("_Result")

AT_ONCE = 32


def outcome(done: asyncio.Future[_Result], otherwise: Callable[[Fault], _Result]) -> _Result:
    """The result of a host's work; where that raised, what `otherwise` makes of it."""
    try:
        return done.result()
    except Exception as error:  # noqa: BLE001  # one host's trouble is its own
        return otherwise(fault(error))


async def side_by_side(
    hosts: Iterable[_Host],
    work: Callable[[_Host], Awaitable[_Result]],
    at_once: int = AT_ONCE,
    *,
    otherwise: Callable[[_Host, Fault], _Result],
) -> AsyncIterator[tuple[_Host, _Result]]:
    """`work` for each host, at most `at_once` at a time, each with its result as soon as it is there.

    `work` turns a host's trouble into a result (as `passes.converge` does); `otherwise` says what the result is of a host
    for which it raised something all the same. Calling this off calls every host's work off, and waits until each has left
    its host in order.
    """
    waiting = iter(hosts)
    running: dict[asyncio.Future[_Result], _Host] = {}
    try:
        while True:
            while len(running) < at_once and (host := next(waiting, None)) is not None:
                running[asyncio.ensure_future(work(host))] = host
            if not running:
                return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                host = running.pop(task)
                yield host, outcome(task, lambda error, host=host: otherwise(host, error))  # type: ignore[misc]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
