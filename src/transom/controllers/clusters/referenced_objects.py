"""Who reads the objects of workload clusters on a server, asked for once: for a command that does not follow it."""

from collections.abc import Iterable

import msgspec

from transom.capi.bootstrap.injection import is_for_windows, list_secret_names
from transom.controllers.clusters.values_readers import APPS, RELEASES
from transom.controllers.machines.machine_objects import (
    CONFIGS,
    CONTROL_PLANES,
    DEPLOYMENTS,
    TEMPLATES,
    CachedControlPlane,
    CachedDeployment,
    CachedTemplate,
)
from transom.kube.api_versions import resolve_api_version
from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.objects import T
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey


class ReferencedObjects(msgspec.Struct, frozen=True):
    """What waits for something: `windows` are the clusters with templates for Windows machines, `named` ConfigMaps and Secrets.

    All of them by namespace and name.
    """

    windows: frozenset[ObjectKey] = frozenset()
    named: frozenset[ObjectKey] = frozenset()

    def list_names(self, namespace: str) -> frozenset[str]:
        """Return the names of the objects that are read in a namespace."""
        return frozenset(name for place, name in self.named if place == namespace)


async def list_readers(client: Client) -> ReferencedObjects:
    """List Cluster API's templates and the Apps on the server. Raises ApiError."""
    templates = await _list_if_served(client, TEMPLATES)
    configured: list[CachedTemplate | CachedControlPlane] = [*templates, *await _list_if_served(client, CONTROL_PLANES)]
    named = {
        ObjectKey(item.metadata.namespace, name) for item in configured for name in list_secret_names(item.configuration or {})
    }
    named |= {
        ObjectKey(item.metadata.namespace, name) for item in await _list_if_served(client, CONFIGS) for name in item.secrets
    }
    named |= {
        ObjectKey(*place)
        for app in (*await _list_if_served(client, APPS), *await _list_if_served(client, RELEASES))
        for place in app.reads
    }
    return ReferencedObjects(
        frozenset(_iter_windows_templates(templates, await _list_if_served(client, DEPLOYMENTS))), frozenset(named)
    )


def _iter_windows_templates(
    templates: Iterable[CachedTemplate], deployments: Iterable[CachedDeployment]
) -> Iterable[ObjectKey]:
    windows = {
        (template.metadata.namespace, template.metadata.name): template.metadata.cluster
        for template in templates
        if is_for_windows(template.configuration or {})
    }
    for (namespace, _), cluster in windows.items():
        if cluster:
            yield ObjectKey(namespace, cluster)
    for using in deployments:
        if (using.metadata.namespace, using.template) in windows:
            yield ObjectKey(using.metadata.namespace, using.spec.cluster_name)


async def _list_if_served(client: Client, resource: Resource[T]) -> list[T]:
    """Return the objects of a kind; none if the server does not serve it."""
    try:
        return (await client.list_objects(await resolve_api_version(client.get_json, resource))).items
    except NotFound:
        return []
