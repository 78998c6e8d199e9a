"""What a server serves: groups of kinds, and of a kind the version that it prefers, which an upgrade may change."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from transom.kube import ApiError, NotFound
from transom.kube.objects import T
from transom.kube.resources import Resource

GetJson = Callable[[str], Coroutine[Any, Any, Any]]
"""`Client.get_json`: what a path below the server's address answers."""
PREFERRED: Final = "preferred"
"""The version of a Resource that leaves it to the server."""


class KindAbsent(NotFound):
    """404: the server has no version of the kind."""


async def served(get_json: GetJson, resource: Resource[T]) -> Resource[T]:
    """`resource` in the version that the server prefers among those that have the kind; one with a fixed version as it is.

    Raises KindAbsent, ApiError.
    """
    if resource.version != PREFERRED:
        return resource
    try:
        group = await get_json(f"/apis/{resource.group}")
    except NotFound as error:
        raise KindAbsent(error.code, error.reason, str(error)) from error
    first = (group.get("preferredVersion") or {}).get("version")
    versions = dict.fromkeys([first, *(one.get("version") for one in group.get("versions") or ())])
    for version in versions:
        try:
            kinds = await get_json(f"/apis/{resource.group}/{version}")
        except NotFound:
            # no longer served, though the group still names it for a moment
            continue
        if any(one.get("name") == resource.plural for one in kinds.get("resources") or ()):
            return dataclasses.replace(resource, version=version)
    raise KindAbsent(404, "NotFound", f"no version of {resource.group} has {resource.plural}")


class _ApiGroup(msgspec.Struct, frozen=True):
    name: str = ""


class _GroupList(msgspec.Struct, frozen=True):
    """metav1.APIGroupList."""

    groups: list[_ApiGroup] | None = None


class Groups:
    """What a server says of its groups, asked once for all who want to know it at the same time."""

    def __init__(self, get_json: GetJson) -> None:
        self._get_json = get_json
        self._names: frozenset[str] = frozenset()
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._asked: dict[str, asyncio.Task[Any]] = {}

    async def answer(self, path: str) -> Any:
        """What is at a path. Who asks while others wait for it has their answer. Raises ApiError."""
        task = self._asked.get(path)
        if task is None:
            task = self._asked[path] = asyncio.ensure_future(self._get_json(path))
            task.add_done_callback(lambda done: self._answered(path, done))
        # the others wait on where one of them gives up
        return await asyncio.shield(task)

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

    def _answered(self, path: str, done: "asyncio.Task[Any]") -> None:
        del self._asked[path]
        if not done.cancelled():
            # an error that nobody waits for any more is none of asyncio's business either
            done.exception()
