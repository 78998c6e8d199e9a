"""EgressProxy/cluster that is being deleted: a wish for no proxy, or the end of something larger, which changes no host.

The finalizer keeps the object until the hosts were given back, so that a deletion is known after a restart.
"""

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from transom.controllers.runtime.watched_settings import SettingsInformers
from transom.kube import Conflict, NotFound
from transom.kube.objects import Whole
from transom.kube.resources import EGRESS_PROXIES
from transom.proxy.layers import BASE
from transom.proxy.objects import Cluster, EgressProxy, EgressProxySpec, SettingsObjects

# the admission server has this module, and nothing of what works on hosts
if TYPE_CHECKING:
    from transom.controllers.runtime.controller import Leadership

_log: Final = structlog.get_logger("transom.egress")


FINALIZER: Final = "transom.dev/settings"
LEAVE_HOST: Final = "transom.dev/leave-host"


class Deletion(msgspec.Struct, frozen=True):
    """What the deletion of the base means. `left`: why no host is changed; None where the settings are taken away.

    `accident`: nobody has spoken of the settings at all, and what holds goes on to hold.
    """

    left: str | None = None
    accident: bool = False


def base_of(informers: SettingsInformers) -> Whole | None:
    """EgressProxy/cluster."""
    return informers.egress_proxies.snapshot().named(BASE)


def is_going(base: Whole | None) -> bool:
    """Whether it is being deleted."""
    return base is not None and base.metadata.deletion_timestamp is not None


async def judged(informers: SettingsInformers, objects: SettingsObjects) -> Deletion | None:
    """What the deletion of the base means; None where it is not being deleted. Raises ApiError."""
    base = base_of(informers)
    if base is None or not is_going(base):
        return None
    if not await informers.settings_definition_stands():
        return Deletion("the definition of EgressProxy is being deleted", accident=True)
    if not await informers.namespace_stands():
        return Deletion(f"namespace {informers.namespace} is being deleted", accident=True)
    if (base.metadata.annotations or {}).get(LEAVE_HOST) == "true":
        return Deletion(f"annotation {LEAVE_HOST} says so")
    if (other := _successor(objects.egress_proxies, objects.clusters)) is not None:
        return Deletion(f"EgressProxy/{other} has no effect, and looks like the same under another name: name it {BASE}")
    return Deletion()


def without(objects: Any, deletion: Deletion | None) -> Any:
    """The objects as the settings are made of them, with a base that is being deleted emptied, or gone.

    What it says of Windows still holds while hosts are given back. Beside OpenShift's Proxy it was not the base.
    """
    if deletion is None:
        return objects
    kept = []
    for one in objects.egress_proxies:
        if one.metadata.name != BASE:
            kept.append(one)
        elif deletion.left is None and objects.proxy is None:
            kept.append(msgspec.structs.replace(one, spec=EgressProxySpec(windows=one.spec.windows)))
    return msgspec.structs.replace(objects, egress_proxies=tuple(kept))


def _successor(proxies: Iterable[EgressProxy], clusters: Iterable[Cluster]) -> str | None:
    """An EgressProxy that no cluster has: what a base was renamed to."""
    for one in proxies:
        selector = one.spec.cluster_selector
        if one.metadata.name != BASE and not any(selector is None or selector.matches(c.metadata.labels) for c in clusters):
            return one.metadata.name
    return None


def has_finalizer(base: Whole) -> bool:
    """Whether Transom has a word in the deletion of the base."""
    return FINALIZER in (base.metadata.finalizers or ())


async def put_finalizer(base: Whole, leadership: "Leadership") -> None:
    """Put it on. Raises ApiError."""
    await _set(base, [*(base.metadata.finalizers or ()), FINALIZER], leadership)


async def take_finalizer(base: Whole, leadership: "Leadership") -> None:
    """Take it off; others' stay. Raises ApiError."""
    await _set(base, [one for one in base.metadata.finalizers or () if one != FINALIZER], leadership)
    _log.info("finalizer taken off", object=f"EgressProxy/{base.metadata.name}")


async def _set(base: Whole, finalizers: list[str], leadership: "Leadership") -> None:
    meta = base.metadata
    # the version keeps somebody else's finalizer that came meanwhile; another event comes with it
    change = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}}
    with contextlib.suppress(NotFound, Conflict):
        await leadership.client.patch(EGRESS_PROXIES, change, meta.name)
