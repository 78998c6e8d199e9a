"""The deletion of EgressProxy/cluster: a request for no proxy, or part of a larger deletion, which changes no host.

The finalizer keeps the object until the hosts are restored, so that a deletion is known after a restart.
"""

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from transom.controllers.runtime.watched_settings import SettingsInformers
from transom.kube.errors import Conflict, NotFound
from transom.kube.objects import UnstructuredObject
from transom.kube.resources import EGRESS_PROXIES
from transom.proxy.layers import BASE
from transom.proxy.objects import Cluster, EgressProxy, EgressProxySpec, SettingsObjects

# the admission server has this module, and nothing of what works on hosts
if TYPE_CHECKING:
    from transom.controllers.runtime.controller import Leadership

_log: Final = structlog.get_logger("transom.egress")


FINALIZER: Final = "transom.dev/settings"
LEAVE_HOST: Final = "transom.dev/leave-host"


class BaseDeletion(msgspec.Struct, frozen=True):
    """The meaning of the base's deletion. `left`: why no host is changed; None if the settings are removed.

    `accident`: no person removed the settings, so the effective ones stay.
    """

    left: str | None = None
    accident: bool = False


def find_base(informers: SettingsInformers) -> UnstructuredObject | None:
    """EgressProxy/cluster."""
    return informers.egress_proxies.take_snapshot().find_named(BASE)


def is_being_deleted(base: UnstructuredObject | None) -> bool:
    """Return True if the base is being deleted."""
    return base is not None and base.metadata.deletion_timestamp is not None


async def judge_deletion(informers: SettingsInformers, objects: SettingsObjects) -> BaseDeletion | None:
    """Return the meaning of the base's deletion; None if it is not being deleted. Raises ApiError."""
    base = find_base(informers)
    if base is None or not is_being_deleted(base):
        return None
    if not await informers.is_settings_kind_permanent():
        return BaseDeletion("the definition of EgressProxy is being deleted", accident=True)
    if not await informers.is_namespace_permanent():
        return BaseDeletion(f"namespace {informers.namespace} is being deleted", accident=True)
    if (base.metadata.annotations or {}).get(LEAVE_HOST) == "true":
        return BaseDeletion(f"annotation {LEAVE_HOST} is set")
    if (other := _find_successor(objects.egress_proxies, objects.clusters)) is not None:
        return BaseDeletion(f"EgressProxy/{other} has no effect, and looks like the same under another name: name it {BASE}")
    return BaseDeletion()


def without_deleted_base(objects: Any, deletion: BaseDeletion | None) -> Any:
    """Return the objects for building the settings: a base that is being deleted is empty or missing in them.

    Its settings of Windows still apply while hosts are restored. With OpenShift's Proxy, it was not the base.
    """
    if deletion is None:
        return objects
    kept = []
    for egress_proxy in objects.egress_proxies:
        if egress_proxy.metadata.name != BASE:
            kept.append(egress_proxy)
        elif deletion.left is None and objects.proxy is None:
            kept.append(msgspec.structs.replace(egress_proxy, spec=EgressProxySpec(windows=egress_proxy.spec.windows)))
    return msgspec.structs.replace(objects, egress_proxies=tuple(kept))


def _find_successor(proxies: Iterable[EgressProxy], clusters: Iterable[Cluster]) -> str | None:
    """Return the name of an EgressProxy that selects no cluster: the base was renamed to it."""
    for proxy in proxies:
        selector = proxy.spec.cluster_selector
        if proxy.metadata.name != BASE and not any(selector is None or selector.matches(c.metadata.labels) for c in clusters):
            return proxy.metadata.name
    return None


def has_finalizer(base: UnstructuredObject) -> bool:
    """Return True if Transom's finalizer is on the base."""
    return FINALIZER in (base.metadata.finalizers or ())


async def add_finalizer(base: UnstructuredObject, leadership: "Leadership") -> None:
    """Put it on. Raises ApiError."""
    await _patch_finalizers(base, [*(base.metadata.finalizers or ()), FINALIZER], leadership)


async def remove_finalizer(base: UnstructuredObject, leadership: "Leadership") -> None:
    """Remove it; those of others stay. Raises ApiError."""
    await _patch_finalizers(
        base, [finalizer for finalizer in base.metadata.finalizers or () if finalizer != FINALIZER], leadership
    )
    _log.info("finalizer removed", object=f"EgressProxy/{base.metadata.name}")


async def _patch_finalizers(base: UnstructuredObject, finalizers: list[str], leadership: "Leadership") -> None:
    meta = base.metadata
    # the version keeps a finalizer that another client added meanwhile; another event comes with it
    change = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}}
    with contextlib.suppress(NotFound, Conflict):
        await leadership.client.patch(EGRESS_PROXIES, change, meta.name)
