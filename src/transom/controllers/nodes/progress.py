"""The progress of work on a host, reported in the condition Configured and by events."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from transom.controllers.runtime.conditions import Condition
from transom.hosts.steps.delivery import PassProgress
from transom.kube.errors import ApiError
from transom.kube.events import EventRecorder, Regarding

_log: Final = structlog.get_logger("transom.nodes")
_PAUSE: Final = 2.0
"""Seconds between two writes of a status while bytes are sent."""
_STEPS: Final = {
    "connect": ("Connecting", "the host is being connected to"),
    "read": ("Reading", "what is on the host is being read"),
    "send": ("Sending", "files are being sent"),
    "prepare": ("Preparing", "Windows is being prepared: features, name, firewall"),
    "change": ("Changing", "files are put in place, services are made and started"),
}
REASONS: Final = frozenset(reason for reason, _ in _STEPS.values())
_TOLD: Final = ("send", "prepare", "change")
"""Steps of which there is an event: something is done to the host."""


class NodeProgressWriter:
    """Takes the reports of a pass; `run` writes the newest of them, now and then."""

    def __init__(
        self, write: Callable[[Condition], Awaitable[None]], recorder: EventRecorder, regarding: Regarding, *, settled: bool
    ) -> None:
        self._write = write
        self._recorder = recorder
        self._regarding = regarding
        self._settled = settled
        """Whether the host already has a progress message: connecting to it once more is then not reported."""
        self._newest: PassProgress | None = None
        self._news = asyncio.Event()
        self._told: set[str] = set()

    def __call__(self, progress: PassProgress) -> None:
        """Note a report."""
        if self._settled and progress.step not in _TOLD:
            return
        self._newest = progress
        self._news.set()
        if progress.step in _TOLD and progress.step not in self._told:
            self._told.add(progress.step)
            self._recorder.record_normal(self._regarding, *_STEPS[progress.step])

    async def run(self) -> None:
        """Write until cancelled. A status that cannot be written now is written at the end of the pass."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._newest is not None:
                try:
                    await self._write(to_condition(self._newest))
                except ApiError as error:
                    _log.info("progress not written", error=str(error))
            await asyncio.sleep(_PAUSE)


def to_condition(progress: PassProgress) -> Condition:
    """Return the condition Configured while a step runs."""
    reason, message = _STEPS.get(progress.step, ("Working", "the host is being worked on"))
    if progress.detail:
        message += f": {progress.detail}"
    if progress.total:
        message += f" ({progress.done / 1e6:.1f} of {progress.total / 1e6:.1f} MB)"
    return Condition("False", reason, message)
