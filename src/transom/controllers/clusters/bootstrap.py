"""The objects of workload clusters from manifests, written by a command before any operator runs, as it would write them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from transom.capi.values.cluster_identity import InvalidIdentity, build_systemd_name, build_values_name, get_cluster_id
from transom.capi.values.cluster_objects import FleetObject, build_fleet_objects, find_identity_conflicts, get_namespaced_name
from transom.controllers.clusters.objects import ObjectResult, ObjectsWriter, compare_objects
from transom.controllers.clusters.referenced_objects import list_readers
from transom.controllers.runtime.cached_objects import CLUSTERS
from transom.controllers.runtime.hash_key import read_fleet_key
from transom.controllers.runtime.informers import INFRASTRUCTURE
from transom.controllers.runtime.owned_objects import CONFIG_MAPS, SELECTOR, OwnedConfigMap
from transom.kube.api_versions import resolve_api_version
from transom.kube.client import Client
from transom.kube.errors import ApiError, Conflict, NotFound
from transom.kube.resources import NAMESPACES
from transom.kube.store import ObjectKey, Store
from transom.manifests.workloads import build_namespace as namespace_object
from transom.proxy.objects import Cluster
from transom.proxy.settings import ResolvedSettings
from transom.sources.objects import ObjectReader, Objects

AT_ONCE: Final = 16


class ObjectsReport(msgspec.Struct, frozen=True):
    """What was done, or would be, with each object; and what could not be done, with its reason.

    `stopped`: by Ctrl-C; errors name the clusters that are not done.
    """

    objects: tuple[ObjectResult, ...]
    errors: tuple[str, ...] = ()
    stopped: bool = False


async def with_server_clusters(client: Client, objects: Objects) -> Objects:
    """Replace Clusters and infrastructure objects by those that the server has. Raises ApiError."""
    try:
        resource = await resolve_api_version(client.get_json, CLUSTERS)
    except NotFound:
        return objects

    async def read_cluster(cluster: Cluster) -> Cluster:
        try:
            cached = await client.get(resource, cluster.metadata.name, cluster.metadata.namespace)
        except NotFound:
            return cluster
        reader.add(cached.value, client.connection.server, lambda _: (0, 0))
        return reader.build_objects().clusters[-1]

    reader = ObjectReader(objects.namespace)
    clusters = tuple([await read_cluster(cluster) for cluster in objects.clusters])
    for cluster in clusters:
        for kind, name in (
            (cluster.infrastructure, cluster.infrastructure_name),
            (cluster.control_plane, cluster.control_plane_name),
        ):
            if (infrastructure := await _read_infrastructure(client, cluster, kind, name)) is not None:
                reader.add(infrastructure, client.connection.server, lambda _: (0, 0))
    known = {**objects.infrastructure_clusters, **reader.build_objects().infrastructure_clusters}
    return msgspec.structs.replace(objects, clusters=clusters, infrastructure_clusters=known)


async def _read_infrastructure(client: Client, cluster: Cluster, kind: str | None, name: str | None) -> dict[str, Any] | None:
    """Return the infrastructure object that a Cluster names, if Transom reads its kind and the server has it."""
    resource = next((item for item in INFRASTRUCTURE if item.kind == kind), None)
    if resource is None or not name:
        return None
    with contextlib.suppress(NotFound):
        known = await resolve_api_version(client.get_json, resource)
        return (await client.get(known, name, cluster.metadata.namespace)).to_value(resource.kind)
    return None


async def write_cluster_objects(
    client: Client, objects: Objects, settings: ResolvedSettings, *, dry_run: bool
) -> ObjectsReport:
    """Bring the objects of every Cluster to what the settings ask for; with `dry_run` say what that would be.

    Who waits for one of them is asked of the server, too: templates and Apps need not be in the manifests.
    One cluster that fails does not keep the others. Raises ApiError if no cluster can be processed.
    """
    errors: list[str] = []
    waiting = await list_readers(client)
    chosen: list[tuple[ObjectKey, tuple[FleetObject, ...]]] = []
    later = find_identity_conflicts(objects.clusters)
    for cluster in objects.clusters:
        egress = settings.clusters[get_namespaced_name(cluster)]
        try:
            place = ObjectKey(cluster.metadata.namespace or "", get_cluster_id(cluster))
        except InvalidIdentity as error:
            errors.append(f"{cluster.place.object}: {error}")
            continue
        if get_namespaced_name(cluster) in later:
            errors.append(f"{cluster.place.object}: {later[get_namespaced_name(cluster)].message}")
        elif egress is not None:
            windows = get_namespaced_name(cluster) in objects.windows_clusters | waiting.windows
            others = {
                build_values_name(place.name, own_name=not egress.own_values),
                build_systemd_name(place.name, own_name=not egress.own_drop_in),
            }
            named = waiting.list_names(place.namespace or "") - others
            chosen.append((place, build_fleet_objects(cluster, egress, windows=windows, referenced_names=named)))
    if dry_run:
        return await run_for_each_cluster(chosen, errors, lambda place, desired: compare_objects(client, place, desired))
    key = await _ensure_key(client, objects.namespace)
    store: Store[OwnedConfigMap] = Store()
    listing = await client.list_objects(CONFIG_MAPS, labels=SELECTOR)
    store.replace(listing.items, (), listing.resource_version)
    keeper = ObjectsWriter(store)
    return await run_for_each_cluster(
        chosen, errors, lambda place, desired: keeper.reconcile_objects(client, key, place, desired, verify=True)
    )


_Work = Callable[[ObjectKey, Sequence[FleetObject]], Awaitable[list[ObjectResult]]]


async def run_for_each_cluster(
    chosen: Sequence[tuple[ObjectKey, tuple[FleetObject, ...]]], errors: list[str], work: _Work
) -> ObjectsReport:
    """Run `work` on each cluster, some at a time, until it is done or cancelled. `errors` are those known before."""
    turns = asyncio.Semaphore(AT_ONCE)
    results: dict[ObjectKey, list[ObjectResult]] = {}

    async def run_for_cluster(cluster_key: ObjectKey, desired: tuple[FleetObject, ...]) -> None:
        async with turns:
            try:
                results[cluster_key] = await work(cluster_key, desired)
            except ApiError as error:
                results[cluster_key] = []
                errors.append(f"cluster {cluster_key}: {error}")

    stopped = False
    try:
        await asyncio.gather(*(run_for_cluster(place, desired) for place, desired in chosen))
    except asyncio.CancelledError:
        stopped = True
        left = (place for place, _ in chosen if place not in results)
        errors += [f"cluster {place}: stopped before all of its objects were done: run it again" for place in left]
    done = (kept for place, _ in chosen for kept in results.get(place, ()))
    return ObjectsReport(tuple(done), tuple(errors), stopped)


async def _ensure_key(client: Client, namespace: str) -> bytes:
    """Return the key of the hashes; on a new cluster, create it and its namespace as `transom manifests` prints it."""
    try:
        return await read_fleet_key(client, namespace)
    except NotFound:
        # another client may have created it in the meantime
        with contextlib.suppress(Conflict):
            await client.create(NAMESPACES, namespace_object(namespace))
        return await read_fleet_key(client, namespace)
