"""The three phases until a connection is logged in, each with its own limit: TCP, key exchange, login.

A login is slow where the server asks others: of domain accounts (PowerShell/Win32-OpenSSH#1061), or now and then
(PowerShell/Win32-OpenSSH#2425). A server ends it after 120 s (sshd_config(5), LoginGraceTime).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import msgspec

Phase = Literal["TCP", "key exchange", "login"]


class PhaseLimits(msgspec.Struct, frozen=True):
    """In seconds: for the TCP connection and the key exchange each, and for the login."""

    connect: float = 10
    login: float = 120


class LoginPhases:
    """The phase that a connection is in. `enter` begins the next one, with its limit."""

    def __init__(self, limits: PhaseLimits) -> None:
        self.phase: Phase = "TCP"
        self._limits = limits
        self._timeout: asyncio.Timeout | None = None

    @property
    def seconds(self) -> float:
        """The limit of the phase."""
        return self._limits.login if self.phase == "login" else self._limits.connect

    @property
    def option(self) -> str:
        """The option of the command line that sets this limit."""
        return "--login-timeout" if self.phase == "login" else "--connect-timeout"

    @asynccontextmanager
    async def enforce_limits(self) -> AsyncIterator[None]:
        """Raise TimeoutError in a phase that takes longer than its limit."""
        async with asyncio.timeout(self.seconds) as timeout:
            self._timeout = timeout
            try:
                yield
            finally:
                self._timeout = None

    def enter_phase(self, phase: Phase) -> None:
        """Begin a phase."""
        self.phase = phase
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self.seconds)
