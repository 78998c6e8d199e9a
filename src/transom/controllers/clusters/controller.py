"""The objects of workload clusters: creates those that the settings require, and deletes the others.

A key is a namespace and a cluster's id. What is known is in the stores; a pass over a cluster of which nothing changed asks the
server for nothing. Every ten minutes the Secrets of a cluster are read and compared, since they cannot be followed.
"""

import asyncio
import random
from collections.abc import Iterator
from typing import Final

import structlog

from transom.capi.bootstrap.windows_proxy import build_secret_name as windows_name
from transom.capi.values.cluster_identity import (
    ID_LABEL,
    InvalidIdentity,
    build_systemd_name,
    build_systemd_names,
    build_values_name,
    get_identity,
)
from transom.capi.values.cluster_objects import FleetObject, build_fleet_objects
from transom.controllers.clusters import status
from transom.controllers.clusters.apps import ClusterApps, InjectionResult, build_cluster_index_value
from transom.controllers.clusters.objects import ObjectsWriter
from transom.controllers.clusters.status import ClusterReport
from transom.controllers.machines.templates import ClusterApiStores
from transom.controllers.runtime.cached_objects import CLUSTERS, CachedCluster, ClusterMeta
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.current_settings import Cluster, CurrentSettings
from transom.controllers.runtime.hash_key import read_fleet_key
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.owned_objects import CONFIG_MAPS, SELECTOR, OwnedConfigMap, has_owner_labels
from transom.kube.errors import ApiError
from transom.kube.objects import ObjectMeta
from transom.kube.queue import KeyQueue, Priority
from transom.kube.store import ObjectKey
from transom.proxy.objects import Cluster as ClusterObject
from transom.sources.objects import ObjectReader

_log: Final = structlog.get_logger("transom.clusters")
VERIFY: Final = 600.0
"""Seconds between two readings of a cluster's Secrets."""
VERIFY_NOTHING: Final = 3600.0
"""The same for an object that must not exist: an earlier version may have left one."""
VERIFY_AGAIN: Final = 30.0
"""The least of them while machines are made and templates change."""
CONFLICT_CHECK: Final = 60.0
"""Seconds until an object that is not managed by Transom is read again."""
_SETTINGS_FIRST: Final = 1.0
"""Seconds that a Cluster's change waits for the settings that come of it, so that both are one pass."""
_STATUS: Final[ObjectKey] = ObjectKey(None, "")
_STATUS_DELAY: Final = 1.0
_STATUS_AT_LEAST: Final = 30.0
"""Seconds after which a status is written though there is still work to do."""


class ClustersController:
    """Keys are (namespace, id of the cluster)."""

    def __init__(self, informers: Informers, settings: CurrentSettings, reports: ConditionAggregator) -> None:
        self._informers, self._settings, self._reports = informers, settings, reports
        self._clusters = self._informers.watch(CLUSTERS, indexes={"identity": _index_places, "namespace": _index_namespace})
        self._config_maps = self._informers.watch(CONFIG_MAPS, labels=SELECTOR)
        self._apps = ClusterApps(self._informers, self._list_cluster_ids)
        self._templates = ClusterApiStores(self._informers)
        self._keeper = ObjectsWriter(self._config_maps)
        self._passes: dict[ObjectKey, ClusterReport] = {}
        self._read: dict[ObjectKey, tuple[CachedCluster, ClusterObject]] = {}
        """The Cluster of a key in the store, and its decoded form: a change of the settings reconciles each Cluster."""
        self._verify_at: dict[ObjectKey, float] = {}
        self._verified: dict[ObjectKey, float] = {}
        self._begun = False
        self._leadership: Leadership | None = None
        self._key = b""
        self._beginning = asyncio.Lock()
        self._status_due = 0.0
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def subscribe(self) -> None:
        """Subscribe to the stores, which have been filled."""
        self._clusters.subscribe(self._on_cluster_change)
        self._config_maps.subscribe(self._on_config_map_change)
        self._apps.subscribe(self.queue.add)
        self._templates.subscribe(self._on_template_change)
        self._begun = True
        self._settings.subscribe(self._on_settings_change)
        self._settings.subscribe_to_updates(self._schedule_report)

    # --- which object concerns which key

    def _on_cluster_change(self, _: ObjectKey, before: CachedCluster | None, after: CachedCluster | None) -> None:
        if before is not None and after is not None and before.value == after.value and before.deleting == after.deleting:
            return
        for cached in (before, after):
            if cached is not None:
                self._add(cached, after=_SETTINGS_FIRST if before is not None and after is not None else 0.0)

    def _on_config_map_change(self, name: ObjectKey, before: OwnedConfigMap | None, after: OwnedConfigMap | None) -> None:
        cached = after or before
        identity = (cached.metadata.labels or {}).get(ID_LABEL) if cached is not None else None
        if identity and self._keeper.observe_change(name, identity, after):
            self.queue.add(ObjectKey(name.namespace, identity))

    def _on_settings_change(self, clusters: frozenset[Cluster]) -> None:
        snapshot = self._clusters.take_snapshot()
        for cluster in clusters:
            cached = snapshot.get(ObjectKey(*cluster)) if cluster is not None else None
            if cached is not None:
                self._add(cached)

    def _on_template_change(self, cluster: ObjectKey) -> None:
        cached = self._clusters.take_snapshot().get(cluster)
        if cached is None:
            return
        for place in _index_places(cached) if self._begun else ():
            # a machine that is being created may wait for a deleted object
            key = _parse_cluster_key(place)
            time = asyncio.get_running_loop().time()
            self._verify_at[key] = min(self._verify_at.get(key, time), max(time, self._verified.get(key, 0.0) + VERIFY_AGAIN))
        self._add(cached)

    def _add(self, cached: CachedCluster, after: float = 0.0) -> None:
        for place in _index_places(cached):
            self.queue.add(_parse_cluster_key(place), after=after)

    # --- one key

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Bring the objects of one cluster up to date. Raises ApiError."""
        if key == _STATUS:
            return self._report()
        async with self._beginning:
            if leadership is not self._leadership:
                self._keeper.forget_written()
                self._key = await read_fleet_key(leadership.client, self._informers.namespace)
                self._leadership = leadership
        try:
            outcome = await self._reconcile_cluster(key, leadership)
        except ApiError as error:
            self._record_report(key, ClusterReport(failure=str(error) or type(error).__name__))
            raise
        return outcome

    async def _reconcile_cluster(self, key: ObjectKey, leadership: Leadership) -> Result:
        namespace, identity = key
        cluster = self._find_oldest_cluster(key)
        desired = self._build_desired_objects(namespace or "", identity, cluster)
        if desired is None:
            return Result()
        time = asyncio.get_running_loop().time()
        # after a start the clusters are spread over the time between two readings
        interval = VERIFY if desired else VERIFY_NOTHING
        due = self._verify_at.setdefault(key, time + interval * (0.1 + 0.9 * random.random()))  # noqa: S311
        # of a Cluster that is gone nothing may be left, also of what was written when it went
        verify = time >= due or cluster is None
        kept = await self._keeper.reconcile_objects(leadership.client, self._key, key, desired, verify=verify)
        conflicts = tuple(f"{item.kind} {item.namespace}/{item.name}" for item in kept if item.result == "foreign")
        for result in ("created", "applied", "deleted"):
            if objects := [f"{item.kind} {item.name}" for item in kept if item.result == result]:
                _log.debug(result, objects=objects)
        if verify:
            self._verified[key] = time
            self._verify_at[key] = due = time + interval
        injected = await self._update_references(key, desired, leadership)
        if cluster is None:
            self._verify_at.pop(key, None)
            self._verified.pop(key, None)
            self._read.pop(key, None)
            self._record_report(key, None)
            return Result()
        self._record_report(key, ClusterReport(conflicts, own_values=injected.own))
        return Result(again=due - time if injected.done and not conflicts else min(due - time, CONFLICT_CHECK))

    def _find_oldest_cluster(self, key: ObjectKey) -> CachedCluster | None:
        """Return the oldest of the Clusters with this ID."""
        clusters = self._clusters.take_snapshot().list_by_index("identity", build_cluster_index_value(*key))
        return min(clusters, key=lambda item: (item.metadata.creation_timestamp or "", item.metadata.name), default=None)

    def _build_desired_objects(
        self, namespace: str, cluster_id: str, cluster: CachedCluster | None
    ) -> tuple[FleetObject, ...] | None:
        """Return the desired objects; None if nothing may be changed now."""
        newest = self._settings.newest
        if newest is None or self._informers.get_served_resource(CLUSTERS) is None:
            return None
        if cluster is None:
            # one that does not fit is there, all the same
            unread = (item.metadata.metadata for item in self._clusters.malformed.values() if not item.in_use)
            return (
                None
                if build_cluster_index_value(namespace, cluster_id)
                in (place for meta in unread for place in _iter_places(meta))
                else ()
            )
        name = (namespace, cluster.metadata.name)
        egress = self._settings.for_cluster(name)
        if cluster.deleting or egress is None or newest.clusters.get(name) is None:
            # on its way out, invalid or withheld: what is there stays
            return None
        secrets = {build_systemd_name(cluster_id, own_name=egress.own_drop_in), windows_name(cluster_id)}
        # an object of the other name may have another owner
        secrets |= {
            name for name in build_systemd_names(cluster_id) if self._keeper.has_secret(ObjectKey(namespace, name), cluster_id)
        }
        named = {secret for secret in secrets if self._templates.is_secret_referenced(namespace, secret)}
        for own in (False, True):
            values = build_values_name(cluster_id, own_name=own)
            # a pair of the other name may have another owner
            own_exists = own == egress.own_values or self._is_ours(ObjectKey(namespace, values), cluster_id)
            if own_exists and self._apps.is_referenced(namespace, values):
                named.add(values)
        windows = self._templates.has_windows_templates(namespace, cluster.metadata.name)
        return build_fleet_objects(
            self._parse_cluster(ObjectKey(namespace, cluster_id), cluster), egress, windows=windows, referenced_names=named
        )

    def _parse_cluster(self, key: ObjectKey, cluster: CachedCluster) -> ClusterObject:
        before, parsed_cluster = self._read.get(key, (None, None))
        if parsed_cluster is None or before is not cluster:
            reader = ObjectReader(self._informers.namespace)
            reader.add(cluster.value, "", lambda _: (0, 0))
            (parsed_cluster,) = reader.build_objects().clusters
            self._read[key] = (cluster, parsed_cluster)
        return parsed_cluster

    async def _update_references(
        self, key: ObjectKey, desired: tuple[FleetObject, ...], leadership: Leadership
    ) -> InjectionResult:
        own = self._settings.own is not None and self._settings.own.own_values
        values = any((made.kind, made.name) == ("Secret", build_values_name(key.name, own_name=own)) for made in desired)
        return await self._apps.update_references(leadership.client, key, values=values, own_names=own)

    def _is_ours(self, name: ObjectKey, cluster_id: str) -> bool:
        cached = self._config_maps.take_snapshot().get(name)
        return cached is not None and has_owner_labels(cached.metadata, cluster_id)

    def _list_cluster_ids(self, namespace: str) -> set[str]:
        clusters = self._clusters.take_snapshot().list_by_index("namespace", namespace)
        return {_parse_cluster_key(place)[1] for cached in clusters for place in _index_places(cached)}

    # --- the status

    def _record_report(self, key: ObjectKey, report: ClusterReport | None) -> None:
        if self._passes.get(key) == report:
            return
        if report is None:
            self._passes.pop(key, None)
        else:
            self._passes[key] = report
        self._schedule_report()

    def _schedule_report(self) -> None:
        self.queue.add(_STATUS, Priority.CHECK, after=_STATUS_DELAY)

    def _report(self) -> Result:
        """Say how things stand, when there is nothing left to do, or after a while."""
        time = asyncio.get_running_loop().time()
        self._status_due = self._status_due or time + _STATUS_AT_LEAST
        if (len(self.queue) or self.queue.working > 1) and time < self._status_due:
            return Result(again=_STATUS_DELAY)
        self._status_due = 0.0
        newest = self._settings.newest
        if newest is None:
            return Result()
        if self._informers.get_served_resource(CLUSTERS) is None:
            self._reports.set_conditions("fleet", {})
            return Result()
        passes = {}
        for cached in self._clusters.take_snapshot():
            for place in _index_places(cached):
                report = self._passes.get(_parse_cluster_key(place))
                if report is not None:
                    passes[cached.metadata.namespace or "", cached.metadata.name] = report
        self._reports.set_conditions("fleet", status.build_conditions(self._informers.get_objects(), newest, passes))
        return Result()


def _index_places(cached: CachedCluster) -> Iterator[str]:
    return _iter_places(cached.metadata)


def _iter_places(meta: ClusterMeta | ObjectMeta) -> Iterator[str]:
    try:
        identity = get_identity(meta.name, meta.labels or {})
    except InvalidIdentity:
        # the status of its settings reports it
        return
    yield build_cluster_index_value(meta.namespace, identity)


def _index_namespace(cached: CachedCluster) -> Iterator[str]:
    yield cached.metadata.namespace or ""


def _parse_cluster_key(place: str) -> ObjectKey:
    namespace, _, name = place.partition("/")
    return ObjectKey(namespace, name)
