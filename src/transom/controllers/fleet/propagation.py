"""The settings in workload clusters that have a Transom of their own: brought there through the cluster's kubeconfig.

A key is a Cluster. Each pass opens its own connection and closes it: a rotated kubeconfig is followed, and a cluster that
cannot be reached costs nothing but the time of its own passes, which come less and less often.
"""

from typing import Any, Final

import msgspec
import structlog

from transom.controllers.conditions import Verdict, Verdicts
from transom.controllers.controller import Outcome, Surroundings
from transom.controllers.fleet import propagated
from transom.controllers.kept import HeldCluster
from transom.controllers.settings import Cluster
from transom.controllers.term import Term
from transom.kube.apply import apply
from transom.kube.backoff import Backoff
from transom.kube.client import Client
from transom.kube.errors import ApiError, ConfigurationError, NotFound
from transom.kube.objects import ObjectMeta, Projected, Whole
from transom.kube.queue import KeyQueue, Priority
from transom.kube.remote import connect_remote, server_of
from transom.kube.resources import EGRESS_PROXIES, NAMESPACES, Resource
from transom.kube.store import Name
from transom.proxy import layers
from transom.proxy.clients import CLIENTS, decide
from transom.proxy.objects import EgressProxy
from transom.proxy.settings import Egress

_log: Final = structlog.get_logger("transom.propagation")
CHECK: Final = 600.0
"""Seconds between two looks into a cluster in which everything is as it should be."""
BACKOFF: Final = Backoff(5.0, 120.0)
SECONDS: Final = 10.0
"""Of one request to another cluster."""
_ALL: Final[Name] = (None, "")
_SHOWN: Final = 3


class _Kubeconfig(Projected, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"_Kubeconfig({self.metadata.namespace}/{self.metadata.name})"


_KUBECONFIGS: Final = Resource("", "v1", "Secret", "secrets", True, _Kubeconfig)


class _Failure(Exception):
    """A cluster that nothing was brought into; the message says why, without a secret."""


class PropagationController:
    """Keys are (namespace, name) of a Cluster, and `_ALL`, which writes the status."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._watched, self._settings = surroundings.watched, surroundings.settings
        self._reports = surroundings.reports
        self._clusters = self._watched.clusters
        self._home: str | None = None
        self._brought: set[Name] = set()
        self._results: dict[Name, str] = {}
        """Why nothing could be brought into a cluster; empty where everything is there."""
        self.queue: KeyQueue[Name] = KeyQueue(BACKOFF)

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self._clusters.subscribe(self._cluster_changed)
        self._settings.subscribe(self._settings_changed)
        self._settings.on_update(self._say_soon)

    def _cluster_changed(self, name: Name, before: HeldCluster | None, after: HeldCluster | None) -> None:
        if before is None or after is None or before.value != after.value:
            self.queue.add(name)

    def _settings_changed(self, clusters: frozenset[Cluster]) -> None:
        for cluster in clusters:
            # one that cannot be reached is tried again anyway: each change would only make it wait longer
            if cluster is not None and not self.queue.failures(cluster):
                self.queue.add(cluster)

    def _say_soon(self) -> None:
        self.queue.add(_ALL, Priority.CHECK, after=1.0)

    async def reconcile(self, key: Name, term: Term) -> Outcome:
        """Bring the settings into one cluster, or say how things stand."""
        if key == _ALL:
            self._say()
            return Outcome()
        cluster = self._clusters.snapshot().get(key[1], key[0])
        if cluster is None or cluster.deleting:
            self._brought.discard(key)
            self._note(key, None)
            return Outcome()
        egress = self._settings.of_cluster((key[0] or "", key[1]))
        if egress is None or (not (egress.propagate and egress.configured) and key not in self._brought):
            self._note(key, None)
            return Outcome()
        try:
            there = await self._bring(key, egress, term)
        except _Failure as failure:
            self._note(key, str(failure))
            return Outcome(failed=True)
        self._note(key, "" if there else None)
        return Outcome(again=CHECK if there else None)

    async def _bring(self, key: Name, egress: Egress, term: Term) -> bool:
        """Whether the settings are in that cluster afterwards. Raises _Failure."""
        namespace, name = key[0] or "", key[1]
        kubeconfig = await self._kubeconfig(namespace, name, term)
        source = f"Secret {namespace}/{name}-kubeconfig"
        try:
            server = server_of(kubeconfig, source)
            connection = connect_remote(kubeconfig, source, way_to(server, self._settings.own))
        except ConfigurationError as error:
            raise _Failure(str(error)) from error
        try:
            client = Client(connection, term.permit)
            return await self._converge(client, key, egress, term)
        except ApiError as error:
            raise _Failure(f"{name}: {error}") from error
        finally:
            await connection.close()

    async def _kubeconfig(self, namespace: str, name: str, term: Term) -> bytes:
        try:
            found = await term.client.get(_KUBECONFIGS, f"{name}-kubeconfig", namespace)
        except NotFound as error:
            raise _Failure(f"there is no Secret {namespace}/{name}-kubeconfig yet") from error
        try:
            return msgspec.convert((found.data or {})["value"], bytes, strict=False)
        except (KeyError, msgspec.ValidationError) as error:
            raise _Failure(f"Secret {namespace}/{name}-kubeconfig: data.value is missing or no base64") from error

    async def _converge(self, client: Client, key: Name, egress: Egress, term: Term) -> bool:
        there = (await self._get(client, NAMESPACES, "kube-system")).metadata.uid
        if self._home is None:
            self._home = (await term.client.get(NAMESPACES, "kube-system")).metadata.uid
        if there == self._home:
            _log.info("the cluster is this very cluster: nothing is brought there", cluster=key[1])
            return False
        place = self._watched.namespace
        wanted = propagated.wanted(egress, place, (key[0] or "", key[1])) if egress.propagate and egress.configured else []
        live = {
            (resource.kind, name): await self._live(client, resource, name, where)
            for resource, name, where in propagated.places(place)
        }
        foreign = [f"{kind} {name}" for (kind, name), found in live.items() if found is not None and not propagated.ours(found)]
        if foreign and wanted:
            raise _Failure(
                f"{', '.join(foreign)} there is somebody else's, and left alone; remove it, or hand it over with annotation "
                'transom.dev/adopt: "true"'
            )
        for resource, value in wanted:
            metadata = value["metadata"]
            try:
                if await apply(client, resource, value, live=live[resource.kind, metadata["name"]]):
                    _log.info("brought", cluster=key[1], kind=resource.kind, name=metadata["name"])
            except NotFound as error:
                raise _Failure(_missing(resource, place)) from error
        self._brought.add(key)
        await self._withdraw(client, key, {(resource.kind, value["metadata"]["name"]) for resource, value in wanted}, live)
        if not wanted:
            self._brought.discard(key)
        return bool(wanted)

    async def _withdraw(
        self, client: Client, key: Name, kept: set[tuple[str, str]], live: dict[tuple[str, str], dict[str, Any] | None]
    ) -> None:
        """Take out what was brought there and is no longer wanted."""
        for resource, name, where in propagated.places(self._watched.namespace):
            found = live[resource.kind, name]
            if (resource.kind, name) in kept or found is None or not propagated.ours(found):
                continue
            try:
                await client.delete(resource, name, where, found["metadata"].get("uid"))
            except NotFound:
                continue
            _log.info("taken out", cluster=key[1], kind=resource.kind, name=name)

    async def _get(self, client: Client, resource: Resource[Any], name: str, namespace: str | None = None) -> Any:
        return resource.decode(await client.request("GET", resource.path(namespace, name), seconds=SECONDS))

    async def _live(self, client: Client, resource: Resource[Any], name: str, namespace: str | None) -> dict[str, Any] | None:
        try:
            found: Whole = await self._get(client, resource, name, namespace)
        except NotFound:
            return None
        return found.value

    # --- the status

    def _note(self, key: Name, result: str | None) -> None:
        if self._results.get(key) == result:
            return
        if result is None:
            self._results.pop(key, None)
        else:
            self._results[key] = result
            if result:
                _log.warning("not brought", cluster="/".join(filter(None, key)), error=result)
        self._say_soon()

    def _say(self) -> None:
        """One word on each EgressProxy about all the clusters that it holds for."""
        objects = self._watched.objects()
        said: dict[str, dict[Name, str]] = {}
        for cluster in objects.clusters:
            key = (cluster.metadata.namespace, cluster.metadata.name)
            if key not in self._results:
                continue
            for layer in layers.of_workload_cluster(objects, cluster).layers:
                if isinstance(layer.source, EgressProxy):
                    said.setdefault(layer.source.metadata.name, {})[key] = self._results[key]
        self._reports.put("propagation", {name: _verdict(results) for name, results in said.items()})


def way_to(server: str, own: Egress | None) -> str | None:
    """The proxy on the way to a server; None for the direct way, as NO_PROXY of the own cluster says for a Go program."""
    if own is None or own.https_proxy is None:
        return None
    try:
        bypass = decide(CLIENTS["go"], server, own.no_proxy or None).bypass
    except ValueError:
        # no URL: the connection will say so
        return None
    return None if bypass else own.https_proxy.reveal()


def _verdict(results: dict[Name, str]) -> Verdicts:
    failed = [text for _, text in sorted(results.items(), key=lambda item: str(item[0])) if text]
    count = len(results)
    if not failed:
        return {"Propagated": Verdict("True", "Propagated", f"in all of {count:,} clusters that ask for it")}
    more = f" and {len(failed) - _SHOWN:,} more" if len(failed) > _SHOWN else ""
    return {
        "Propagated": Verdict("False", "Failed", f"not in {len(failed):,} of {count:,}: {'; '.join(failed[:_SHOWN])}{more}")
    }


def _missing(resource: Resource[Any], namespace: str) -> str:
    if resource is EGRESS_PROXIES:
        return "the cluster does not know EgressProxy: install Transom there (transom manifests)"
    return f"the cluster has no namespace {namespace}: install Transom there (transom manifests)"
