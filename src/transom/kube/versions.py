"""The version of a kind that a server prefers, where several are served and an upgrade may change which."""

import dataclasses
from typing import Final

from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.objects import T
from transom.kube.resources import Resource

PREFERRED: Final = "preferred"
"""The version of a Resource that leaves it to the server."""


class KindAbsent(NotFound):
    """404: the server has no version of the kind."""


async def served(client: Client, resource: Resource[T]) -> Resource[T]:
    """`resource` in the version that the server prefers among those that have the kind; one with a fixed version as it is.

    Raises KindAbsent, ApiError.
    """
    if resource.version != PREFERRED:
        return resource
    try:
        group = await client.get_json(f"/apis/{resource.group}")
    except NotFound as error:
        raise KindAbsent(error.code, error.reason, str(error)) from error
    first = (group.get("preferredVersion") or {}).get("version")
    versions = dict.fromkeys([first, *(one.get("version") for one in group.get("versions") or ())])
    for version in versions:
        try:
            kinds = await client.get_json(f"/apis/{resource.group}/{version}")
        except NotFound:
            # no longer served, though the group still names it for a moment
            continue
        if any(one.get("name") == resource.plural for one in kinds.get("resources") or ()):
            return dataclasses.replace(resource, version=version)
    raise KindAbsent(404, "NotFound", f"no version of {resource.group} has {resource.plural}")
