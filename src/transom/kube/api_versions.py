"""What a server serves: groups of kinds, and of a kind the version that it prefers, which an upgrade may change."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from transom.kube.errors import ApiError, NotFound
from transom.kube.objects import T
from transom.kube.resources import Resource

GetJson = Callable[[str], Coroutine[Any, Any, Any]]
"""`Client.get_json`: what a path below the server's address answers."""
PREFERRED: Final = "preferred"
"""The version of a Resource that leaves it to the server."""


class KindAbsent(NotFound):
    """404: the server has no version of the kind."""


async def resolve_api_version(get_json: GetJson, resource: Resource[T]) -> Resource[T]:
    """Resolve the preferred version in which the server has the kind; a fixed version is returned unchanged.

    Raises KindAbsent, ApiError.
    """
    if resource.version != PREFERRED:
        return resource
    try:
        group = await get_json(f"/apis/{resource.group}")
    except NotFound as error:
        raise KindAbsent(error.code, error.reason, str(error)) from error
    first = (group.get("preferredVersion") or {}).get("version")
    versions = dict.fromkeys([first, *(version.get("version") for version in group.get("versions") or ())])
    for version in versions:
        try:
            kinds = await get_json(f"/apis/{resource.group}/{version}")
        except NotFound:
            # no longer served, though the group still names it for a moment
            continue
        if any(item.get("name") == resource.plural for item in kinds.get("resources") or ()):
            return dataclasses.replace(resource, version=version)
    raise KindAbsent(404, "NotFound", f"no version of {resource.group} has {resource.plural}")


class _ApiGroup(msgspec.Struct, frozen=True):
    name: str = ""


class _GroupList(msgspec.Struct, frozen=True):
    """metav1.APIGroupList."""

    groups: list[_ApiGroup] | None = None


class ApiGroups:
    """What a server says of its groups, asked once for all who want to know it at the same time."""

    def __init__(self, get_json: GetJson) -> None:
        self._get_json = get_json
        self._names: frozenset[str] = frozenset()
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._asked: dict[str, asyncio.Task[Any]] = {}

    async def fetch_shared_json(self, path: str) -> Any:
        """Fetch the answer of a path; concurrent calls share one request. Raises ApiError."""
        task = self._asked.get(path)
        if task is None:
            task = self._asked[path] = asyncio.ensure_future(self._get_json(path))
            task.add_done_callback(lambda done: self._forget_request(path, done))
        # the others wait on where one of them gives up
        return await asyncio.shield(task)

    async def has_group(self, group: str, max_age: float) -> bool:
        """Return True if the server had that group in the last `max_age` seconds, or if that is unknown."""
        if not group:
            # the core group has a list of its own
            return True
        loop = asyncio.get_running_loop()
        async with self._reading:
            if loop.time() - self._read_at > max_age:
                try:
                    answer = msgspec.convert(await self._get_json("/apis"), _GroupList)
                except (ApiError, msgspec.ValidationError):
                    return True
                self._names = frozenset(group.name for group in answer.groups or ())
                self._read_at = loop.time()
        return group in self._names

    def _forget_request(self, path: str, done: "asyncio.Task[Any]") -> None:
        del self._asked[path]
        if not done.cancelled():
            # asyncio must not log an error that is no longer awaited
            done.exception()
