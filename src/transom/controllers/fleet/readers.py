"""Who reads the objects of workload clusters on a server, asked for once: for a command that does not follow it."""

from collections.abc import Iterable

import msgspec

from transom.capi.injection import on_windows, secrets_named
from transom.controllers.fleet.app_kinds import APPS, RELEASES
from transom.controllers.fleet.machine_kinds import (
    CONFIGS,
    CONTROL_PLANES,
    DEPLOYMENTS,
    TEMPLATES,
    HeldControlPlane,
    HeldDeployment,
    HeldTemplate,
)
from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.objects import T
from transom.kube.resources import Resource
from transom.kube.store import Name
from transom.kube.versions import served


class Readers(msgspec.Struct, frozen=True):
    """What waits for something: `windows` are the clusters with templates for Windows machines, `named` ConfigMaps and Secrets.

    All of them by namespace and name.
    """

    windows: frozenset[Name] = frozenset()
    named: frozenset[Name] = frozenset()

    def in_namespace(self, namespace: str) -> frozenset[str]:
        """The names of what is read there."""
        return frozenset(name for place, name in self.named if place == namespace)


async def readers(client: Client) -> Readers:
    """What there is on the server of Cluster API's templates, and of Apps. Raises ApiError."""
    templates = await _all(client, TEMPLATES)
    configured: list[HeldTemplate | HeldControlPlane] = [*templates, *await _all(client, CONTROL_PLANES)]
    named = {(one.metadata.namespace, name) for one in configured for name in secrets_named(one.configuration or {})}
    named |= {(one.metadata.namespace, name) for one in await _all(client, CONFIGS) for name in one.secrets}
    named |= {place for app in (*await _all(client, APPS), *await _all(client, RELEASES)) for place in app.reads}
    return Readers(frozenset(_windows(templates, await _all(client, DEPLOYMENTS))), frozenset(named))


def _windows(templates: Iterable[HeldTemplate], deployments: Iterable[HeldDeployment]) -> Iterable[Name]:
    windows = {
        (one.metadata.namespace, one.metadata.name): one.metadata.cluster
        for one in templates
        if on_windows(one.configuration or {})
    }
    for (namespace, _), cluster in windows.items():
        if cluster:
            yield namespace, cluster
    for using in deployments:
        if (using.metadata.namespace, using.template) in windows:
            yield using.metadata.namespace, using.spec.cluster_name


async def _all(client: Client, resource: Resource[T]) -> list[T]:
    """The objects of a kind; none where the server does not have it."""
    try:
        return (await client.list_objects(await served(client, resource))).items
    except NotFound:
        return []
