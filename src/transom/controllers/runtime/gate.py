"""New settings wait until their readiness endpoints answer through them: a wrong proxy must not reach a single host."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog

from transom.http.readiness import EndpointAnswer, has_failures, probe
from transom.kube.backoff import wait_for_event
from transom.proxy.settings import Egress

_log: Final = structlog.get_logger("transom.settings")
AGAIN: Final = 30.0
"""Seconds until endpoints that do not answer are tried again."""


class SettingsGate:
    """Decides whether settings may hold. `run` tries the endpoints of those that wait; `decided` is called after each try."""

    def __init__(self, on_decided: Callable[[], None], retry_seconds: float = AGAIN) -> None:
        self._decided = on_decided
        self._again = retry_seconds
        self._passed: tuple[Any, ...] | None = None
        self._wake = asyncio.Event()
        self._tried = asyncio.Event()
        self.waiting: Egress | None = None
        """The settings that wait for their endpoints, or are being tried."""
        self.answers: list[EndpointAnswer] = []
        """What their endpoints said last; nothing before the first try."""

    def can_apply(self, egress: Egress, current: Egress | None) -> bool:
        """Return True if `egress` may replace `current`. If not, it waits, and its endpoints are probed at once."""
        way = _get_route_fields(egress)
        same = current is not None and _get_route_fields(current) == way
        if not egress.readiness_endpoints or egress.readiness_policy == "Report" or same or way == self._passed:
            self.discard_waiting()
            return True
        if self.waiting is None or _get_route_fields(self.waiting) != way:
            self.answers = []
            self._tried.clear()
            self._wake.set()
        self.waiting = egress
        return False

    def discard_waiting(self) -> None:
        """Nothing waits any more."""
        self.waiting = None
        self.answers = []

    async def wait_until_tried(self, seconds: float) -> None:
        """Wait until what waits has been tried once, but not for long."""
        if self.waiting is not None:
            await wait_for_event(self._tried, seconds)

    async def run(self) -> None:
        """Try what waits, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while (candidate := self.waiting) is not None:
                answers = await probe(candidate)
                if self.waiting is None or _get_route_fields(self.waiting) != _get_route_fields(candidate):
                    continue
                self.answers = answers
                self._tried.set()
                if not has_failures(answers):
                    self._passed = _get_route_fields(candidate)
                    self._decided()
                    break
                _log.warning("settings are held back: an endpoint does not answer through them")
                self._decided()
                await wait_for_event(self._wake, self._again)
                self._wake.clear()


def _get_route_fields(egress: Egress) -> tuple[Any, ...]:
    """Return the fields that decide whether an endpoint is reached."""
    return egress.http_proxy, egress.https_proxy, egress.trust, egress.readiness_endpoints
