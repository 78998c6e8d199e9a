"""The objects of workload clusters from manifests, written by a command before any operator runs, as it would write them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from transom.capi.identity import InvalidIdentity, cluster_id, values_name
from transom.capi.objects import FleetObject, key_of, namesakes, wanted
from transom.controllers.clusters.objects import Kept, ObjectsWriter, compare
from transom.controllers.clusters.readers import readers
from transom.controllers.runtime.cached import CLUSTERS
from transom.controllers.runtime.hash_key import fleet_key
from transom.controllers.runtime.informers import INFRASTRUCTURE
from transom.controllers.runtime.owned import CONFIG_MAPS, SELECTOR, OwnedConfigMap
from transom.kube import ApiError, Conflict, NotFound
from transom.kube.client import Client
from transom.kube.resources import NAMESPACES
from transom.kube.store import ObjectKey, Store
from transom.kube.versions import served
from transom.manifests.workloads import namespace as namespace_object
from transom.proxy.objects import Cluster
from transom.proxy.settings import Effective
from transom.sources.objects import ObjectReader, Objects

AT_ONCE: Final = 16


class ObjectsReport(msgspec.Struct, frozen=True):
    """What was done, or would be, with each object; and what could not be done, with its reason.

    `stopped`: by Ctrl-C; errors name the clusters that are not done.
    """

    objects: tuple[Kept, ...]
    errors: tuple[str, ...] = ()
    stopped: bool = False


async def with_clusters_of(client: Client, objects: Objects) -> Objects:
    """The same, with Clusters and infrastructure objects that the server has as the server has them. Raises ApiError."""
    try:
        resource = await served(client.get_json, CLUSTERS)
    except NotFound:
        return objects

    async def one(cluster: Cluster) -> Cluster:
        try:
            cached = await client.get(resource, cluster.metadata.name, cluster.metadata.namespace)
        except NotFound:
            return cluster
        reader.add(cached.value, client.connection.server, lambda _: (0, 0))
        return reader.objects().clusters[-1]

    reader = ObjectReader(objects.namespace)
    clusters = tuple([await one(cluster) for cluster in objects.clusters])
    for cluster in clusters:
        for kind, name in (
            (cluster.infrastructure, cluster.infrastructure_name),
            (cluster.control_plane, cluster.control_plane_name),
        ):
            if (found := await _infrastructure(client, cluster, kind, name)) is not None:
                reader.add(found, client.connection.server, lambda _: (0, 0))
    known = {**objects.infrastructure_clusters, **reader.objects().infrastructure_clusters}
    return msgspec.structs.replace(objects, clusters=clusters, infrastructure_clusters=known)


async def _infrastructure(client: Client, cluster: Cluster, kind: str | None, name: str | None) -> dict[str, Any] | None:
    """What a Cluster names, in plain values, where it is one that is read and the server has it."""
    resource = next((one for one in INFRASTRUCTURE if one.kind == kind), None)
    if resource is None or not name:
        return None
    with contextlib.suppress(NotFound):
        known = await served(client.get_json, resource)
        return (await client.get(known, name, cluster.metadata.namespace)).value(resource.kind)
    return None


async def write(client: Client, objects: Objects, settings: Effective, *, dry_run: bool) -> ObjectsReport:
    """Bring the objects of every Cluster to what the settings ask for; with `dry_run` say what that would be.

    Who waits for one of them is asked of the server, too: templates and Apps need not be in the manifests.
    One cluster that fails does not keep the others. Raises ApiError where nothing can be done at all.
    """
    errors: list[str] = []
    waiting = await readers(client)
    chosen: list[tuple[ObjectKey, tuple[FleetObject, ...]]] = []
    later = namesakes(objects.clusters)
    for cluster in objects.clusters:
        egress = settings.clusters[key_of(cluster)]
        try:
            place = ObjectKey(cluster.metadata.namespace or "", cluster_id(cluster))
        except InvalidIdentity as error:
            errors.append(f"{cluster.place.object}: {error}")
            continue
        if key_of(cluster) in later:
            errors.append(f"{cluster.place.object}: {later[key_of(cluster)].text}")
        elif egress is not None:
            windows = key_of(cluster) in objects.windows_clusters | waiting.windows
            named = waiting.in_namespace(place.namespace or "") - {values_name(place.name, own=not egress.own_values)}
            chosen.append((place, wanted(cluster, egress, windows=windows, named=named)))
    if dry_run:
        return await each(chosen, errors, lambda place, desired: compare(client, place, desired))
    key = await _key(client, objects.namespace)
    store: Store[OwnedConfigMap] = Store()
    listing = await client.list_objects(CONFIG_MAPS, labels=SELECTOR)
    store.replace(listing.items, (), listing.resource_version)
    keeper = ObjectsWriter(store)
    return await each(chosen, errors, lambda place, desired: keeper.keep(client, key, place, desired, verify=True))


_Work = Callable[[ObjectKey, Sequence[FleetObject]], Awaitable[list[Kept]]]


async def each(chosen: Sequence[tuple[ObjectKey, tuple[FleetObject, ...]]], errors: list[str], work: _Work) -> ObjectsReport:
    """The work on each cluster, some at a time, until it is done or cancelled; `errors` are those that are known before."""
    turns = asyncio.Semaphore(AT_ONCE)
    found: dict[ObjectKey, list[Kept]] = {}

    async def one(place: ObjectKey, desired: tuple[FleetObject, ...]) -> None:
        async with turns:
            try:
                found[place] = await work(place, desired)
            except ApiError as error:
                found[place] = []
                errors.append(f"cluster {place}: {error}")

    stopped = False
    try:
        await asyncio.gather(*(one(place, desired) for place, desired in chosen))
    except asyncio.CancelledError:
        stopped = True
        left = (place for place, _ in chosen if place not in found)
        errors += [f"cluster {place}: stopped by Ctrl-C before all of its objects were done: run it again" for place in left]
    done = (kept for place, _ in chosen for kept in found.get(place, ()))
    return ObjectsReport(tuple(done), tuple(errors), stopped)


async def _key(client: Client, namespace: str) -> bytes:
    """The key of the hashes; on a fresh cluster with the namespace that it is kept in, as `transom manifests` prints that."""
    try:
        return await fleet_key(client, namespace)
    except NotFound:
        # somebody else may have made it in the meantime
        with contextlib.suppress(Conflict):
            await client.create(NAMESPACES, namespace_object(namespace))
        return await fleet_key(client, namespace)
