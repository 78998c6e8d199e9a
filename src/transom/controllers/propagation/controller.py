"""The settings in workload clusters that have a Transom of their own: brought there through the cluster's kubeconfig.

A key is a Cluster. Each pass opens a connection of its own and closes it, so that a rotated kubeconfig is followed. A cluster
that cannot be reached costs the time of its own passes, which come less and less often.
"""

import asyncio
from typing import Any, Final

import msgspec
import structlog

from transom.controllers.propagation import propagated_objects, propagation_state
from transom.controllers.runtime.cached_objects import CachedCluster
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.current_settings import Cluster, CurrentSettings
from transom.controllers.runtime.informers import Informers
from transom.kube.apply import apply
from transom.kube.backoff import Backoff
from transom.kube.client import Client
from transom.kube.connection import connect_untrusted_cluster
from transom.kube.errors import ApiError, ConfigurationError, NotFound
from transom.kube.kubeconfig import choose_untrusted_context
from transom.kube.lease import LeaseLost
from transom.kube.objects import ObjectMeta, Projected, UnstructuredObject
from transom.kube.permitted_networks import USUAL_NETWORKS, PermittedNetworks
from transom.kube.queue import KeyQueue, Priority
from transom.kube.resources import EGRESS_PROXIES, NAMESPACES, Resource
from transom.kube.store import ObjectKey
from transom.proxy import layers
from transom.proxy.clients.client_table import CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.objects import EgressProxy
from transom.proxy.settings import Egress
from transom.sources.yaml_text import InvalidText, read_documents

_log: Final = structlog.get_logger("transom.propagation")
CHECK: Final = 600.0
"""Seconds between two looks into a cluster in which everything is as it should be."""
CHECK_AGAIN: Final = 30.0
"""The same while the Transom there has not said that all is well."""
BACKOFF: Final = Backoff(5.0, 120.0)
SECONDS: Final = 10.0
"""Of one request to another cluster."""
_ALL: Final[ObjectKey] = ObjectKey(None, "")


class _Kubeconfig(Projected, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"_Kubeconfig({self.metadata.namespace}/{self.metadata.name})"


_KUBECONFIGS: Final = Resource("", "v1", "Secret", "secrets", True, _Kubeconfig)


class _PropagationFailed(Exception):
    """A cluster that nothing was brought into; the message says why, without a secret."""


class PropagationController:
    """Keys are (namespace, name) of a Cluster, and `_ALL`, which writes the status."""

    def __init__(
        self,
        informers: Informers,
        settings: CurrentSettings,
        reports: ConditionAggregator,
        permitted: PermittedNetworks = USUAL_NETWORKS,
    ) -> None:
        """Follow nothing yet; `permitted` are the networks of the clusters' API servers."""
        self._informers, self._settings, self._reports = informers, settings, reports
        self._permitted = permitted
        self._clusters = self._informers.clusters
        self._home: str | None = None
        self._brought: set[ObjectKey] = set()
        self._results: dict[ObjectKey, propagation_state.PropagationState] = {}
        self.queue: KeyQueue[ObjectKey] = KeyQueue(BACKOFF)

    def subscribe(self) -> None:
        """Follow the stores, which have been filled."""
        self._clusters.subscribe(self._on_cluster_change)
        self._settings.subscribe(self._on_settings_change)
        self._settings.subscribe_to_updates(self._schedule_report)

    def _on_cluster_change(self, name: ObjectKey, before: CachedCluster | None, after: CachedCluster | None) -> None:
        if before is None or after is None or before.value != after.value:
            self.queue.add(name)

    def _on_settings_change(self, clusters: frozenset[Cluster]) -> None:
        for cluster in clusters:
            # one that cannot be reached is tried again anyway: each change would only make it wait longer
            if cluster is not None and not self.queue.count_failures(key := ObjectKey(*cluster)):
                self.queue.add(key)

    def _schedule_report(self) -> None:
        self.queue.add(_ALL, Priority.CHECK, after=1.0)

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Bring the settings into one cluster, or say how things stand."""
        if key == _ALL:
            self._report()
            return Result()
        cluster = self._clusters.take_snapshot().get(key)
        if cluster is None or cluster.deleting:
            self._brought.discard(key)
            self._record_result(key, None)
            return Result()
        egress = self._settings.for_cluster((key.namespace or "", key.name))
        if egress is None or (not propagated_objects.has_objects_to_propagate(egress) and key not in self._brought):
            self._record_result(key, None)
            return Result()
        try:
            cluster_standing = await self._propagate(key, egress, leadership)
        except _PropagationFailed as failure:
            self._record_result(key, propagation_state.PropagationState(failure=str(failure)))
            return Result(failed=True)
        except (ApiError, LeaseLost):
            raise
        except Exception:
            self._record_result(
                key, propagation_state.PropagationState(failure=f"{key.name}: a fault of Transom itself: its log has it")
            )
            raise
        self._record_result(key, cluster_standing)
        if cluster_standing is None:
            return Result()
        return Result(again=CHECK if cluster_standing.settled else CHECK_AGAIN)

    async def _propagate(
        self, key: ObjectKey, egress: Egress, leadership: Leadership
    ) -> propagation_state.PropagationState | None:
        """Return the state of the settings in that cluster afterwards; None if they do not exist. Raises _PropagationFailed."""
        namespace, name = key.namespace or "", key.name
        kubeconfig_data = await self._read_kubeconfig(namespace, name, leadership)
        source = f"Secret {namespace}/{name}-kubeconfig"
        try:
            # thousands of values, in a thread: the text is untrusted
            kubeconfig = choose_untrusted_context(await asyncio.to_thread(parse_kubeconfig, kubeconfig_data, source), source)
            connection = connect_untrusted_cluster(
                kubeconfig, select_proxy(kubeconfig.cluster.server, self._settings.own), self._permitted
            )
        except ConfigurationError as error:
            raise _PropagationFailed(str(error)) from error
        try:
            client = Client(connection, leadership.permit)
            return await self._converge(client, key, egress, leadership)
        except ApiError as error:
            raise _PropagationFailed(f"{name}: {error}") from error
        finally:
            await connection.close()

    async def _read_kubeconfig(self, namespace: str, name: str, leadership: Leadership) -> bytes:
        try:
            secret = await leadership.client.get(_KUBECONFIGS, f"{name}-kubeconfig", namespace)
        except NotFound as error:
            raise _PropagationFailed(f"Secret {namespace}/{name}-kubeconfig does not exist yet") from error
        try:
            return msgspec.convert((secret.data or {})["value"], bytes, strict=False)
        except (KeyError, msgspec.ValidationError) as error:
            raise _PropagationFailed(f"Secret {namespace}/{name}-kubeconfig: data.value is missing or no base64") from error

    async def _converge(
        self, client: Client, key: ObjectKey, egress: Egress, leadership: Leadership
    ) -> propagation_state.PropagationState | None:
        cluster_uid = (await self._get(client, NAMESPACES, "kube-system")).metadata.uid
        if self._home is None:
            self._home = (await leadership.client.get(NAMESPACES, "kube-system")).metadata.uid
        if cluster_uid == self._home:
            _log.info("the cluster is this very cluster: nothing is brought there", cluster=key.name)
            return None
        place = self._informers.namespace
        wanted = (
            propagated_objects.build_objects(egress, place, (key.namespace or "", key.name))
            if propagated_objects.has_objects_to_propagate(egress)
            else []
        )
        live = {
            (resource.kind, name): await self._read_live(client, resource, name, where)
            for resource, name, where in propagated_objects.list_propagated_objects(place)
        }
        foreign = [
            f"{kind} {name}"
            for (kind, name), item in live.items()
            if item is not None and not propagated_objects.is_propagated(item)
        ]
        if foreign and wanted:
            raise _PropagationFailed(
                f"{', '.join(foreign)} there is not managed by Transom, and unchanged; remove it, or hand it over "
                "there with `transom adopt`"
            )
        for resource, value in wanted:
            metadata = value["metadata"]
            try:
                if await apply(client, resource, value, live=live[resource.kind, metadata["name"]]):
                    _log.info("brought", cluster=key.name, kind=resource.kind, name=metadata["name"])
            except NotFound as error:
                raise _PropagationFailed(_format_missing(resource, place)) from error
        self._brought.add(key)
        await self._delete_obsolete_objects(
            client, key, {(resource.kind, value["metadata"]["name"]) for resource, value in wanted}, live
        )
        if not wanted:
            self._brought.discard(key)
            return None
        return propagation_state.read_propagation_state(
            egress, await self._read_live(client, EGRESS_PROXIES, layers.BASE, None)
        )

    async def _delete_obsolete_objects(
        self, client: Client, key: ObjectKey, kept: set[tuple[str, str]], live: dict[tuple[str, str], dict[str, Any] | None]
    ) -> None:
        """Delete propagated objects that are not desired any more."""
        for resource, name, where in propagated_objects.list_propagated_objects(self._informers.namespace):
            live_object = live[resource.kind, name]
            if (resource.kind, name) in kept or live_object is None or not propagated_objects.is_propagated(live_object):
                continue
            try:
                await client.delete(resource, name, where, live_object["metadata"].get("uid"))
            except NotFound:
                continue
            _log.info("taken out", cluster=key.name, kind=resource.kind, name=name)

    async def _get(self, client: Client, resource: Resource[Any], name: str, namespace: str | None = None) -> Any:
        return resource.decode(await client.request("GET", resource.build_path(namespace, name), seconds=SECONDS))

    async def _read_live(
        self, client: Client, resource: Resource[Any], name: str, namespace: str | None
    ) -> dict[str, Any] | None:
        try:
            live_object: UnstructuredObject = await self._get(client, resource, name, namespace)
        except NotFound:
            return None
        return live_object.value

    # --- the status

    def _record_result(self, key: ObjectKey, result: propagation_state.PropagationState | None) -> None:
        if self._results.get(key) == result:
            return
        if result is None:
            self._results.pop(key, None)
        else:
            self._results[key] = result
            if result.failure:
                _log.warning("not brought", cluster="/".join(filter(None, key)), error=result.failure)
        self._schedule_report()

    def _report(self) -> None:
        """Set one condition on each EgressProxy about all its clusters."""
        objects = self._informers.get_objects()
        standings: dict[str, dict[ObjectKey, propagation_state.PropagationState]] = {}
        for cluster in objects.clusters:
            key = (cluster.metadata.namespace, cluster.metadata.name)
            if key not in self._results:
                continue
            for layer in layers.merge_workload_layers(objects, cluster).layers:
                if isinstance(layer.source, EgressProxy):
                    standings.setdefault(layer.source.metadata.name, {})[key] = self._results[key]
        self._reports.set_conditions(
            "propagation", {name: propagation_state.build_conditions(results) for name, results in standings.items()}
        )


def select_proxy(server: str, own_egress: Egress | None) -> str | None:
    """Return the proxy for a server; None for a direct connection, as a Go program reads NO_PROXY of this cluster."""
    if own_egress is None or own_egress.https_proxy is None:
        return None
    try:
        bypass = decide(CLIENTS["go"], server, own_egress.no_proxy or None).bypass
    except ValueError:
        # no URL: the connection will say so
        return None
    return None if bypass else own_egress.https_proxy.reveal()


def _format_missing(resource: Resource[Any], namespace: str) -> str:
    if resource is EGRESS_PROXIES:
        return "the cluster does not know EgressProxy: install Transom there (transom manifests)"
    return f"the cluster has no namespace {namespace}: install Transom there (transom manifests)"


MAX_KUBECONFIG_BYTES: Final = 256 << 10
MAX_KUBECONFIG_NODES: Final = 10_000
"""Values in one. To read so many takes a tenth of a second."""


def parse_kubeconfig(data: bytes, source: str) -> Any:
    """Parse the first document. Raises ConfigurationError, whose message names `source` and shows nothing of the content."""
    if len(data) > MAX_KUBECONFIG_BYTES:
        raise ConfigurationError(f"{source}: the kubeconfig has {len(data):,} bytes; at most {MAX_KUBECONFIG_BYTES:,} are read")
    try:
        return next((document.value for document in read_documents(data, MAX_KUBECONFIG_NODES)), None)
    except InvalidText as error:
        where = f", line {error.line}" if error.line else ""
        raise ConfigurationError(f"{source}{where}: {error.reason}") from error
