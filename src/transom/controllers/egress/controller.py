"""The settings' own objects: the status of each EgressProxy, and the ConfigMaps that ask for the trust bundle."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import structlog

from transom.capi.values.cluster_identity import MANAGED_BY, TRANSOM
from transom.controllers.egress import status
from transom.controllers.egress.bundles import BundleText, WriteConflicts
from transom.controllers.egress.events import ReportedProxyState, record_condition_events
from transom.controllers.egress.host_counts import HostTally
from transom.controllers.runtime import base_removal
from transom.controllers.runtime.base_removal import is_being_deleted
from transom.controllers.runtime.cached_objects import CachedInstance
from transom.controllers.runtime.conditions import Condition, ConditionAggregator, Conditions
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.current_settings import Cluster, CurrentSettings
from transom.controllers.runtime.hash_key import HashKey
from transom.controllers.runtime.informers import Informers
from transom.http.readiness import EndpointAnswer, has_failures, probe
from transom.kube.apply import needs_apply
from transom.kube.errors import Conflict, NotFound
from transom.kube.events import Regarding
from transom.kube.memory_limits import get_memory_limit
from transom.kube.objects import BundleConfigMap, UnstructuredObject
from transom.kube.queue import KeyQueue, Priority
from transom.kube.resources import BUNDLE_HOLDERS, EGRESS_PROXIES
from transom.kube.store import ObjectKey, build_key
from transom.proxy.finding import Finding
from transom.proxy.layers import BASE
from transom.proxy.settings import Egress
from transom.proxy.status import EgressProxyStatus
from transom.proxy.trust import INJECT_LABEL, OPENSHIFT_LABEL, SYSTEM_CA_FILE

_log: Final = structlog.get_logger("transom.egress")
CHECK: Final = 300.0
"""Seconds between two tries of the endpoints while they answer."""
CHECK_FAILED: Final = 30.0
"""The same while one does not."""
COUNT: Final = 1.0
"""Seconds until hosts that became something else are counted."""
PROGRESS: Final = 10.0
"""Seconds between two writes that say nothing but how many hosts have come how far."""
_SWEEP: Final[ObjectKey] = ObjectKey(None, "")
_OPENSHIFT: Final[ObjectKey] = ObjectKey(None, "Proxy/cluster")
"""No object can have these names."""


class EgressController:
    """Keys are names: of an EgressProxy (without a namespace), or of a ConfigMap (with one); and OpenShift's Proxy."""

    def __init__(
        self,
        informers: Informers,
        settings: CurrentSettings,
        *,
        system_ca_file: str = SYSTEM_CA_FILE,
        reports: ConditionAggregator | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._informers = informers
        self._settings = settings
        self._texts = BundleText(system_ca_file)
        self._reports = reports or ConditionAggregator()
        self._now = now
        self._hash_key = HashKey(informers)
        self._probed: dict[ObjectKey, tuple[Egress, float, list[EndpointAnswer]]] = {}
        self._released: dict[ObjectKey, str] = {}
        self._rivals = WriteConflicts()
        self._hosts = HostTally()
        self._told_of_proxy = ReportedProxyState()
        self._rests: dict[ObjectKey, float] = {}
        """The time, by the clock of the event loop, at which Transom retries fields that it left to another writer."""
        self._last_written = 0.0
        """When the status of the base was last written, by the clock of the loop."""
        self._applied: dict[str, tuple[str | None, UnstructuredObject]] = {}
        """The answer to the last write of each status, and the version in memory that it was written on."""
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def subscribe(self) -> None:
        """Subscribe to the stores, which have been filled."""
        self._settings.subscribe_to_updates(self._enqueue_settings_objects)
        self._informers.egress_proxies.subscribe(self._on_status_change)
        self._settings.subscribe(self._on_settings_change)
        self._informers.windows_instances.subscribe(self._on_instance_change)
        for store in self._informers.bundle_holders:
            store.subscribe(self._on_bundle_change)
        self._reports.subscribe(lambda name: self.queue.add(ObjectKey(None, name)))
        self._enqueue_settings_objects()
        self.queue.add(_SWEEP, Priority.CHECK)

    # --- which object concerns which key

    def _enqueue_settings_objects(self) -> None:
        for cached in self._informers.egress_proxies.take_snapshot():
            self.queue.add(ObjectKey(None, cached.metadata.name))
        if self._informers.openshift_proxy is not None:
            self.queue.add(_OPENSHIFT)

    def _on_status_change(self, name: ObjectKey, before: UnstructuredObject | None, after: UnstructuredObject | None) -> None:
        # correct a status that another client wrote; a changed spec comes with the settings
        if before is not None and after is not None and before.metadata.generation == after.metadata.generation:
            self.queue.add(name)

    def _on_settings_change(self, clusters: frozenset[Cluster]) -> None:
        if None in clusters:
            for store in self._informers.bundle_holders:
                for name in store.take_snapshot().iter_keys():
                    self.queue.add(name)

    def _on_instance_change(self, _: ObjectKey, before: CachedInstance | None, after: CachedInstance | None) -> None:
        if self._hosts.record_change(before, after):
            # many hosts become ready one after the other: each is not a write of its own
            self.queue.add(ObjectKey(None, BASE), Priority.CHECK, COUNT)

    def _on_bundle_change(self, name: ObjectKey, before: BundleConfigMap | None, after: BundleConfigMap | None) -> None:
        if after is None and before is not None and before.ours and before.metadata.uid:
            # the label went, or the whole object: it is our key that has to go, if it is there
            self._released[name] = before.metadata.uid
        elif after is not None:
            self._released.pop(name, None)
        if after is None or before is None or _get_relevant_fields(before) != _get_relevant_fields(after):
            self.queue.add(name)

    # --- one key

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Bring one status, or one ConfigMap, up to date. Raises ApiError."""
        if key == _SWEEP:
            await self._find_unlabelled_bundles(leadership)
            return Result()
        if key.namespace is not None:
            return await self._inject_bundle(key, leadership)
        newest = self._settings.newest
        if key == _OPENSHIFT:
            proxy = self._informers.openshift_proxy
            if proxy is not None and newest is not None:
                self._told_of_proxy.report(proxy, newest.findings, self._settings.gate, leadership)
            return Result()
        cached = self._informers.egress_proxies.take_snapshot().find_named(key.name)
        deletion = self._settings.deletion
        if (
            key.name == BASE
            and is_being_deleted(cached)
            and cached is not None
            and deletion is not None
            and deletion.left is not None
        ):
            return await self._release_base(cached, deletion.left, leadership)
        if cached is None or newest is None:
            self._probed.pop(key, None)
            self._applied.pop(key.name, None)
            return Result()
        if self._settings.generations.get(key.name) != cached.metadata.generation:
            # an edit that the settings were not computed from yet: nothing can be said of it
            return Result()
        return await self._update_status(cached, newest.findings, leadership)

    async def _release_base(self, cached: UnstructuredObject, why: str, leadership: Leadership) -> Result:
        """Let the base go without a change to any host."""
        if base_removal.has_finalizer(cached):
            meta = cached.metadata
            regarding = Regarding(EGRESS_PROXIES.api_version, EGRESS_PROXIES.kind, meta.name, None, meta.uid)
            leadership.recorder.record_normal(regarding, "HostsLeft", f"hosts keep their settings: {why}")
            await base_removal.remove_finalizer(cached, leadership)
        return Result()

    async def _update_status(self, cached: UnstructuredObject, findings: Iterable[Finding], leadership: Leadership) -> Result:
        name, own = cached.metadata.name, self._settings.own
        spec = cached.value.get("spec") or {}
        openshift = self._informers.openshift_proxy
        base = (openshift.value.get("spec") or {}) if openshift is not None and name == BASE else None
        relevant_findings = status.select_findings(name, spec, self._informers.namespace, findings, base)
        conditions = status.build_validity(name, spec, relevant_findings, base)
        if name == BASE:
            conditions["Conflict"] = Condition("False", "NoConflict", "no conflicting object")
        conditions |= self._reports.get_conditions(name)
        holding = EgressProxyStatus()
        again: float | None = None
        waits = self._settings.gate.waiting is not None
        if name == BASE and own is not None and base is None:
            holding = status.build_effective_status(own)
        if name == BASE and waits:
            if tried := self._settings.gate.answers:
                conditions["EndpointsAnswer"] = status.build_pending_endpoints_condition(tried)
        elif name == BASE and own is not None:
            answers = await self._probe_endpoints(ObjectKey(None, name), own)
            conditions["EndpointsAnswer"] = status.build_current_endpoints_condition(answers)
            if answers:
                again = CHECK_FAILED if has_failures(answers) else CHECK
        if name == BASE:
            holds = self._settings.host_egress
            digest = await self._hash_key.compute_hash(holds.evaluation_key, leadership) if holds is not None else None
            hosts = self._hosts.get_counts(digest)
            holding = msgspec.structs.replace(holding, settings=digest or "", hosts=hosts.status)
            conditions["Ready"] = status.build_ready_condition(conditions, is_edit_pending=waits, hosts=hosts.condition)
            if is_being_deleted(cached):
                conditions["Ready"] = status.build_removing_condition(hosts.condition)
                if base_removal.has_finalizer(cached) and (base is not None or hosts.total == hosts.updated):
                    await base_removal.remove_finalizer(cached, leadership)
                    return Result()
            elif base is None and not base_removal.has_finalizer(cached):
                await base_removal.add_finalizer(cached, leadership)
                # it is heard of, and what is then in memory has what is written next: else the same would be written twice
                return Result()
        else:
            conditions["Ready"] = conditions["Valid"]
        rest = await self._write_status(cached, conditions, holding, leadership)
        return Result(again=min(rest, again) if rest is not None and again is not None else rest or again)

    async def _probe_endpoints(self, key: ObjectKey, own_egress: Egress) -> list[EndpointAnswer]:
        """Return the answers of the effective settings' endpoints, probed again only when they are due."""
        if not own_egress.readiness_endpoints:
            return []
        time = asyncio.get_running_loop().time()
        probed = self._probed.get(key)
        if probed is not None and probed[0] == own_egress:
            _, when, answers = probed
            if time - when < (CHECK_FAILED if has_failures(answers) else CHECK) - 1:
                return answers
        answers = await probe(own_egress)
        self._probed[key] = (own_egress, time, answers)
        return answers

    async def _write_status(
        self, cached: UnstructuredObject, conditions: Conditions, new_status: EgressProxyStatus, leadership: Leadership
    ) -> float | None:
        """Write what is new. Seconds until the next deferred write; None if there is none."""
        meta = cached.metadata
        written_on, applied = self._applied.get(meta.name, (None, cached))
        # what was written has not come back yet: by what is in memory the same would be written, and told, twice
        newest = applied if written_on == meta.resource_version else cached
        live = msgspec.convert(newest.value.get("status") or {}, EgressProxyStatus)
        conditions = status.drop_unchecked(live, conditions)
        wanted = status.merge_status(live, conditions, new_status, meta.generation, self._now())
        desired = {"metadata": {"name": meta.name, "uid": meta.uid}, "status": msgspec.to_builtins(wanted)}
        if not needs_apply(desired, newest.value, "status"):
            return None
        time = asyncio.get_running_loop().time()
        rest = self._last_written + PROGRESS - time
        if meta.name == BASE and rest > 0 and status.is_only_progress(live, wanted):
            return rest
        value = {"apiVersion": EGRESS_PROXIES.api_version, "kind": EGRESS_PROXIES.kind, **desired}
        try:
            applied = await leadership.client.apply(EGRESS_PROXIES, value, meta.name, subresource="status")
        except (NotFound, Conflict) as error:
            _log.info("status not written: the object is gone", error=str(error))
            return None
        self._applied[meta.name] = (meta.resource_version, applied)
        if meta.name == BASE:
            self._last_written = time
        self._emit_events(cached, live, conditions, new_status, leadership)
        return None

    def _emit_events(
        self,
        cached: UnstructuredObject,
        live: EgressProxyStatus,
        conditions: Conditions,
        new_status: EgressProxyStatus,
        leadership: Leadership,
    ) -> None:
        """Send events about new and ended problems. Sent after the status is written, so once."""
        meta = cached.metadata
        regarding = Regarding(EGRESS_PROXIES.api_version, EGRESS_PROXIES.kind, meta.name, None, meta.uid)
        conflict, superseded = conditions.get("Conflict"), conditions.get("Superseded")
        if conflict and conflict.status == "True" and live.get_condition("Conflict").message != conflict.message:
            leadership.recorder.record_warning(regarding, "Conflict", conflict.message)
        record_condition_events(
            regarding, {condition.type: condition for condition in live.conditions}, conditions, leadership.recorder
        )
        if superseded and superseded.status == "True" and live.get_condition("Superseded").status != "True":
            leadership.recorder.record_warning(regarding, superseded.reason, superseded.message)
        if changes := status.format_changes(live, new_status):
            leadership.recorder.record_normal(regarding, "Changed", f"current settings: {changes}")

    # --- ConfigMaps that ask for the bundle

    async def _inject_bundle(self, key: ObjectKey, leadership: Leadership) -> Result:
        own = self._settings.own
        if own is None:
            # there have been no valid settings since the start: what is there stays
            return Result()
        holder = next(
            (bundle_holder for store in self._informers.bundle_holders if (bundle_holder := store.take_snapshot().get(key))),
            None,
        )
        bundle_only = self._get_bundle_request(holder)
        uid = holder.metadata.uid if holder else self._released.get(key)
        if bundle_only is None or not own.trust:
            if uid is not None and (holder is None or holder.ours):
                await self._apply(key, uid, None, leadership)
            self._released.pop(key, None)
            self._end_conflict(key)
            return Result()
        try:
            text, digest = self._texts.render(own.trust, bundle_only=bundle_only)
        except OSError as error:
            _log.error("the system's CAs cannot be read", file=self._texts.system_ca_file, error=error.strerror)  # said in full
            return Result(failed=True)
        if holder is None or (holder.sha256 == digest and holder.ours):
            return Result()
        return await self._restore_bundle(key, uid, text, digest, leadership)

    async def _restore_bundle(self, key: ObjectKey, uid: str | None, text: str, digest: str, leadership: Leadership) -> Result:
        """Restore Transom's key in a ConfigMap, unless another writer changes it again each time."""
        now = asyncio.get_running_loop().time()
        if key in self._rests and now >= self._rests[key]:
            self._end_conflict(key)
        if self._rivals.record_rewrite(key, digest):
            await self._apply(key, uid, text, leadership)
            return Result()
        self._rests.setdefault(key, now + CHECK)
        self._report_conflicts()
        return Result(again=self._rests[key] - now + 1)

    def _end_conflict(self, key: ObjectKey) -> None:
        self._rivals.forget(key)
        self._rests.pop(key, None)
        self._report_conflicts()

    def _report_conflicts(self) -> None:
        lost = sorted("/".join(filter(None, name)) for name in self._rivals.list_lost_objects())
        message = f"the key {BundleConfigMap.KEY} of ConfigMap {', '.join(lost)} is repeatedly overwritten by another program"
        condition = Condition("True", "Taken", f"{message}: remove the label or the other writer")
        self._reports.set_conditions("egress", {BASE: {"Conflict": condition}} if lost else {})

    async def _find_unlabelled_bundles(self, leadership: Leadership) -> None:
        """Find the ConfigMaps that lost their label while no operator was running."""
        labelled = {name for store in self._informers.bundle_holders for name in store.take_snapshot().iter_keys()}

        def is_released(holder: BundleConfigMap) -> bool:
            # the fleet controller keeps ConfigMaps with that key, too: they have a label of their own
            kept = (holder.metadata.labels or {}).get(MANAGED_BY) == TRANSOM
            return holder.ours and not kept and build_key(holder) not in labelled

        # anybody's ConfigMaps are among them
        bound = get_memory_limit(BUNDLE_HOLDERS)
        listing = await leadership.client.list_objects(BUNDLE_HOLDERS, memory_limit=bound, select=is_released)
        for holder in listing.items:
            if holder.metadata.uid:
                self._released[build_key(holder)] = holder.metadata.uid
                self.queue.add(build_key(holder))

    def _get_bundle_request(self, holder: BundleConfigMap | None) -> bool | None:
        """Return True if a ConfigMap asks for the bundle without the system's CAs; None if it asks for nothing."""
        labels = (holder.metadata.labels or {}) if holder else {}
        if labels.get(INJECT_LABEL) in ("true", "bundle-only"):
            return labels[INJECT_LABEL] == "bundle-only"
        if labels.get(OPENSHIFT_LABEL) == "true" and not self._informers.openshift_proxy:
            return False
        return None

    async def _apply(self, key: ObjectKey, uid: str | None, text: str | None, leadership: Leadership) -> None:
        """Apply Transom's key. Without `text` the server removes the key and keeps the others."""
        value: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": uid},
        }
        if text is not None:
            value["data"] = {BundleConfigMap.KEY: text}
        try:
            await leadership.client.apply(BUNDLE_HOLDERS, value, key.name, key.namespace)
        except (NotFound, Conflict) as error:
            _log.info("ConfigMap is gone", error=str(error))
        else:
            _log.info("trust bundle written" if text is not None else "trust bundle taken out")


def _get_relevant_fields(holder: BundleConfigMap) -> tuple[Any, ...]:
    labels = holder.metadata.labels or {}
    return holder.metadata.uid, holder.sha256, holder.ours, labels.get(INJECT_LABEL), labels.get(OPENSHIFT_LABEL)
