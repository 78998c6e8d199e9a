"""The current settings: those of the newest valid objects, by cluster. An invalid edit does not change them."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog

from transom.controllers.runtime.base_removal import BaseDeletion, judge_deletion, without_deleted_base
from transom.controllers.runtime.gate import SettingsGate
from transom.controllers.runtime.watched_settings import SettingsInformers
from transom.kube.backoff import wait_for_event
from transom.kube.errors import ApiError
from transom.proxy.objects import Networks
from transom.proxy.settings import Egress, Instance, ResolvedSettings, WithheldSettings, resolve_settings

_log: Final = structlog.get_logger("transom.settings")
Cluster = tuple[str, str] | None
"""Namespace and name of a Cluster API cluster; None for the cluster that the objects are in."""
Listener = Callable[[frozenset[Cluster]], None]
SETTLE: Final = 0.2
"""Seconds that changes are collected for: what `kubectl apply` sends as several objects is one change."""
REVIEW: Final = 3600.0
"""Seconds until unchanged objects are examined again: some warnings depend on the time."""
_AGAIN: Final = 2.0
_FIRST_TRY: Final = 5.0
"""Seconds that the beginning waits for the first try of the endpoints."""


class _OwnHost(msgspec.Struct, frozen=True):
    """Any host of the cluster that Transom runs in."""

    cluster: None = None


class CurrentSettings:
    """The effective settings. Listeners get the clusters whose settings changed."""

    def __init__(
        self,
        informers: SettingsInformers,
        server: str | None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._informers = informers
        self._server = server
        self._now = now
        self._valid: dict[Cluster, Egress] = {}
        self._listeners: list[Listener] = []
        self._update_listeners: list[Callable[[], None]] = []
        self._dirty = asyncio.Event()
        self.gate = SettingsGate(self._dirty.set)
        self._had_any = False
        self.deletion: BaseDeletion | None = None
        """What it means that EgressProxy/cluster is being deleted; None where it is not."""
        self.generations: dict[str, int | None] = {}
        """Of each EgressProxy, the generation that `newest` was computed from."""
        self.newest: ResolvedSettings | None = None
        """What the objects say now, valid or not; None before `run` has read them."""
        self.begun = asyncio.Event()
        """Set once the settings of the beginning are known."""
        self._cached = ResolvedSettings(None, {}, Networks(), ())

    async def run(self) -> None:
        """Follow the stores, until cancelled, from when all of them have been filled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.gate.run())
            await self._update_on_changes()

    async def _update_on_changes(self) -> None:
        await self._informers.wait_synced()
        while not await self._judge_deletion():  # noqa: ASYNC110  # the server is asked, nothing here changes
            await asyncio.sleep(_AGAIN)
        self.update()
        await self.gate.wait_until_tried(_FIRST_TRY)
        self.update()
        self._informers.subscribe_to_settings(self._dirty.set)
        self.begun.set()
        while True:
            # a definition that appears without objects changes no store, and neither does a certificate that expires
            await wait_for_event(self._dirty, _AGAIN if self.newest is None else REVIEW)
            await asyncio.sleep(SETTLE)
            self._dirty.clear()
            try:
                accident = await self._was_definition_deleted()
            except ApiError as error:
                _log.warning("cannot determine why EgressProxy was deleted", error=str(error))
                self._dirty.set()
                await asyncio.sleep(_AGAIN)
                continue
            if not await self._judge_deletion():
                self._dirty.set()
                await asyncio.sleep(_AGAIN)
            elif accident:
                self._notify_update_listeners()
            else:
                self.update()

    async def _judge_deletion(self) -> bool:
        """Determine the reason of a deletion of the base; return False if it is not known yet."""
        before = self.deletion
        try:
            self.deletion = await judge_deletion(self._informers, self._informers.get_objects())
        except ApiError as error:
            _log.warning("cannot determine why EgressProxy/cluster is being deleted", error=str(error))
            return False
        if self.deletion is not None and self.deletion != before:
            _log.info("EgressProxy/cluster is being deleted", hosts="left" if self.deletion.left else "restored")
        return True

    async def _was_definition_deleted(self) -> bool:
        """Return True if the last EgressProxy was deleted with its CRD, which does not mean that the proxy was removed."""
        any_there = len(self._informers.egress_proxies) > 0
        if any_there or not self._had_any:
            self._had_any = any_there
            return False
        if await self._informers.is_settings_kind_permanent():
            self._had_any = False
            return False
        _log.warning("the definition of EgressProxy was removed: the last settings are kept until there is one again")
        return True

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with the clusters whose settings changed."""
        self._listeners.append(listener)

    def subscribe_to_updates(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each recomputation, with or without changes."""
        self._update_listeners.append(listener)

    def for_instance(self, instance: Instance) -> Egress | None:
        """Return the last valid settings of a host; None if there were none since the start, or they are withheld."""
        return self._cached.for_instance(instance)

    def find_withheld(self, instance: Instance) -> WithheldSettings | None:
        """Return what a host does not get because its cluster does not get it."""
        return self._cached.find_withheld(instance)

    def for_cluster(self, cluster: tuple[str, str]) -> Egress | None:
        """Return the last valid settings of a Cluster; None if there were none since the start, or they are withheld."""
        return self._valid.get(cluster)

    @property
    def own(self) -> Egress | None:
        """The last valid settings of the cluster that Transom runs in."""
        return self._valid.get(None)

    @property
    def host_egress(self) -> Egress | None:
        """The last valid settings of the hosts of that cluster."""
        return self.for_instance(_OwnHost())

    @property
    def valid(self) -> bool:
        """Whether the newest objects are valid, for the own cluster and for each other."""
        newest = self.newest
        if newest is None or newest.own is None:
            return False
        return all(egress is not None or cluster in newest.withheld for cluster, egress in newest.clusters.items())

    def update(self) -> None:
        """Recompute all settings, and notify the listeners."""
        if not self._informers.is_settings_kind_served:
            return
        if self.deletion is not None and self.deletion.accident and self.newest is not None:
            # the current settings stay in effect
            self._notify_update_listeners()
            return
        self._had_any = self._had_any or len(self._informers.egress_proxies) > 0
        objects = without_deleted_base(self._informers.get_objects(), self.deletion)
        self.generations = {
            egress_proxy.metadata.name: egress_proxy.metadata.generation for egress_proxy in objects.egress_proxies
        }
        newest = resolve_settings(objects, self._now(), self._server)
        newest = msgspec.structs.replace(newest, findings=(*objects.findings, *newest.findings))
        if newest.own is None:
            self.gate.discard_waiting()
        elif not self.gate.can_apply(newest.own, self._valid.get(None)):
            # kept waiting as an invalid edit is, for every cluster: layers inherit from the base
            self.newest = newest
            self._notify_update_listeners()
            return
        before = self._valid
        settings_by_cluster: dict[Cluster, Egress | None] = {None: newest.own}
        settings_by_cluster.update(newest.clusters.items())
        # of what is withheld the last settings are forgotten: nothing new is made with them either
        self._valid = {
            cluster: cached
            for cluster, egress in settings_by_cluster.items()
            if cluster not in newest.withheld and (cached := egress or before.get(cluster)) is not None
        }
        changed = {key for key in before.keys() | self._valid.keys() if before.get(key) != self._valid.get(key)}
        clusters: dict[tuple[str, str], Egress | None] = {name: self._valid[name] for name in self._valid if name is not None}
        self.newest = newest
        self._cached = ResolvedSettings(self._valid.get(None), clusters, newest.networks, (), newest.withheld)
        for finding in newest.findings if changed or not self.valid else ():
            if finding.severity == "error":
                _log.warning("settings are invalid", object=finding.object, field=finding.field, error=finding.message)
        if changed:
            _log.info("settings changed", clusters=len(changed))
            for listener in self._listeners:
                listener(frozenset(changed))
        self._notify_update_listeners()

    def _notify_update_listeners(self) -> None:
        for listener in self._update_listeners:
            listener()
