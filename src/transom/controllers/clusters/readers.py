"""Who reads the objects of workload clusters on a server, asked for once: for a command that does not follow it."""

from collections.abc import Iterable

import msgspec

from transom.capi.injection import on_windows, secrets_named
from transom.controllers.clusters.app_kinds import APPS, RELEASES
from transom.controllers.machines import (
    CONFIGS,
    CONTROL_PLANES,
    DEPLOYMENTS,
    TEMPLATES,
    CachedControlPlane,
    CachedDeployment,
    CachedTemplate,
)
from transom.kube import NotFound
from transom.kube.client import Client
from transom.kube.objects import T
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey
from transom.kube.versions import served


class Readers(msgspec.Struct, frozen=True):
    """What waits for something: `windows` are the clusters with templates for Windows machines, `named` ConfigMaps and Secrets.

    All of them by namespace and name.
    """

    windows: frozenset[ObjectKey] = frozenset()
    named: frozenset[ObjectKey] = frozenset()

    def in_namespace(self, namespace: str) -> frozenset[str]:
        """The names of what is read there."""
        return frozenset(name for place, name in self.named if place == namespace)


async def readers(client: Client) -> Readers:
    """What there is on the server of Cluster API's templates, and of Apps. Raises ApiError."""
    templates = await _all(client, TEMPLATES)
    configured: list[CachedTemplate | CachedControlPlane] = [*templates, *await _all(client, CONTROL_PLANES)]
    named = {ObjectKey(one.metadata.namespace, name) for one in configured for name in secrets_named(one.configuration or {})}
    named |= {ObjectKey(one.metadata.namespace, name) for one in await _all(client, CONFIGS) for name in one.secrets}
    named |= {ObjectKey(*place) for app in (*await _all(client, APPS), *await _all(client, RELEASES)) for place in app.reads}
    return Readers(frozenset(_windows(templates, await _all(client, DEPLOYMENTS))), frozenset(named))


def _windows(templates: Iterable[CachedTemplate], deployments: Iterable[CachedDeployment]) -> Iterable[ObjectKey]:
    windows = {
        (one.metadata.namespace, one.metadata.name): one.metadata.cluster
        for one in templates
        if on_windows(one.configuration or {})
    }
    for (namespace, _), cluster in windows.items():
        if cluster:
            yield ObjectKey(namespace, cluster)
    for using in deployments:
        if (using.metadata.namespace, using.template) in windows:
            yield ObjectKey(using.metadata.namespace, using.spec.cluster_name)


async def _all(client: Client, resource: Resource[T]) -> list[T]:
    """The objects of a kind; none where the server does not have it."""
    try:
        return (await client.list_objects(await served(client.get_json, resource))).items
    except NotFound:
        return []
