"""Which groups of kinds a server has: asked once for all who wait for a kind of a group that is not there."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from transom.kube.errors import ApiError


class _Group(msgspec.Struct, frozen=True):
    name: str = ""


class _GroupList(msgspec.Struct, frozen=True):
    """metav1.APIGroupList."""

    groups: list[_Group] | None = None


class Groups:
    """Those of one server, as of the last answer."""

    def __init__(self, get_json: Callable[[str], Awaitable[Any]]) -> None:
        self._get_json = get_json
        self._names: frozenset[str] = frozenset()
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def may_have(self, group: str, within: float) -> bool:
        """Whether the server has that group, by an answer of the last `within` seconds; true where nobody can tell."""
        if not group:
            # the core group has a list of its own
            return True
        loop = asyncio.get_running_loop()
        async with self._reading:
            if loop.time() - self._read_at > within:
                try:
                    answer = msgspec.convert(await self._get_json("/apis"), _GroupList)
                except (ApiError, msgspec.ValidationError):
                    return True
                self._names = frozenset(one.name for one in answer.groups or ())
                self._read_at = loop.time()
        return group in self._names
