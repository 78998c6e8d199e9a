"""When a host is checked although nothing has changed."""

import random
from collections.abc import Callable
from datetime import datetime
from typing import Final

from transom.common.timestamps import format_timestamp, parse_timestamp
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.controllers.runtime.controller import Result

EARLIEST: Final = 0.9
"""The part of the interval after which a check may come."""


class CheckSchedule:
    """Checks each host every `interval` seconds on average."""

    def __init__(self, interval: float, now: Callable[[], datetime], draw: Callable[[], float] = random.random) -> None:
        self._interval, self._now, self._draw = interval, now, draw

    def schedule_next_check(self) -> Result:
        """Return when the next check is due, spread so that hosts that started together do not stay together."""
        return Result(again=self._interval * (EARLIEST + 0.2 * self._draw()))

    def is_fresh(self, instance: CachedInstance) -> bool:
        """Return True if a host was checked since its last check was due."""
        checked = parse_timestamp(instance.live.last_checked)
        return checked is not None and (self._now() - checked).total_seconds() < EARLIEST * self._interval

    def get_timestamp(self) -> str:
        """Return the current time, as a status has it."""
        return format_timestamp(self._now())
