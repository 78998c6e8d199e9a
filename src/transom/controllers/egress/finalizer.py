"""The finalizer of EgressProxy/cluster: put on where it is the base, off when the hosts were given back or are to be left."""

import contextlib
from typing import Final

import structlog

from transom.controllers.runtime.base_removal import FINALIZER
from transom.controllers.runtime.controller import Leadership
from transom.kube.errors import Conflict, NotFound
from transom.kube.objects import Whole
from transom.kube.resources import EGRESS_PROXIES

_log: Final = structlog.get_logger("transom.egress")


def has_finalizer(base: Whole) -> bool:
    """Whether Transom has a word in the deletion of the base."""
    return FINALIZER in (base.metadata.finalizers or ())


async def put(base: Whole, leadership: Leadership) -> None:
    """Put it on. Raises ApiError."""
    await _set(base, [*(base.metadata.finalizers or ()), FINALIZER], leadership)


async def take(base: Whole, leadership: Leadership) -> None:
    """Take it off; others' stay. Raises ApiError."""
    await _set(base, [one for one in base.metadata.finalizers or () if one != FINALIZER], leadership)
    _log.info("finalizer taken off", object=f"EgressProxy/{base.metadata.name}")


async def _set(base: Whole, finalizers: list[str], leadership: Leadership) -> None:
    meta = base.metadata
    # the version keeps somebody else's finalizer that came meanwhile; another event comes with it
    change = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}}
    with contextlib.suppress(NotFound, Conflict):
        await leadership.client.patch(EGRESS_PROXIES, change, meta.name)
