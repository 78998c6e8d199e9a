"""Connections that are cut at one request after another: what two cuts leave alike is followed once."""

import random
import secrets
from typing import Self

import pytest

from winsim import Host
from winsim.checkpoint import Checkpoint


class Cuts:
    """Cuts of passes on one host, each time as it is now. On a host that nobody can put back (`None`) each is followed.

    The salts and names that passes draw are the same after each `begin`, so that what they leave can be compared.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, start: Checkpoint | None) -> None:
        self._monkeypatch, self._start = monkeypatch, start
        self._stage = 0
        self._met: list[list[tuple[object, ...]]] = []
        """What hosts were at each stage."""

    @classmethod
    async def of(cls, monkeypatch: pytest.MonkeyPatch, host: Host | None) -> Self:
        """Cuts of passes on a simulated host, or on another (`None`)."""
        return cls(monkeypatch, await Checkpoint.take(host) if host is not None else None)

    def begin(self) -> bool:
        """Put the host back to what it was; whether that was done."""
        self._stage = 0
        if self._start is None:
            return False
        self._start.restore()
        self._draw()
        return True

    async def met(self) -> bool:
        """Whether an earlier cut has led here, too: what follows is the same. Each call after `begin` is a stage of its own."""
        if self._start is None:
            return False
        contents = (await self._start.take_again()).contents
        if self._stage == len(self._met):
            self._met.append([])
        known = self._met[self._stage]
        if contents in known:
            return True
        known.append(contents)
        self._stage += 1
        self._draw()
        return False

    @property
    def followed(self) -> list[int]:
        """How many hosts were different at each stage."""
        return [len(item) for item in self._met]

    def _draw(self) -> None:
        # another seed for each stage: a pass never draws what one before it has drawn
        self._monkeypatch.setattr(secrets, "token_bytes", random.Random(self._stage).randbytes)
