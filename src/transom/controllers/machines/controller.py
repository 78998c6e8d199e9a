"""The machines of workload clusters: entries in their templates, and a rollout if one is requested.

A key is a Cluster: its templates are examined and, where they let us, edited. One more key, without a name, looks at all
clusters together: how many machines are older than their settings, and which cluster's turn it is.
"""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from transom.capi.bootstrap.machine_kinds import MachineKinds, needs_entries
from transom.capi.bootstrap.windows_proxy import build_secret_name as windows_name
from transom.capi.values.cluster_identity import InvalidIdentity, build_systemd_name, build_systemd_names, get_identity
from transom.common.timestamps import format_timestamp
from transom.controllers.machines import rollout as machine_rollout
from transom.controllers.machines import status as machines_status
from transom.controllers.machines.machine_objects import (
    CONTROL_PLANES,
    DEPLOYMENTS,
    ROLLOUT_MANAGER,
    CachedControlPlane,
    CachedDeployment,
    CachedPool,
    CachedPoolConfig,
    CachedTemplate,
    FieldWrite,
    FieldWriteMeta,
)
from transom.controllers.machines.machine_pools import MachinePools
from transom.controllers.machines.rollout import MachineGroup, MachinesRolloutState, RolloutStep
from transom.controllers.machines.status import ClusterMachines
from transom.controllers.machines.template_edits import ExaminedTemplate, Held, TemplateEditor, find_deployment_manager
from transom.controllers.machines.templates import ClusterApiStores
from transom.controllers.runtime.cached_objects import CachedCluster
from transom.controllers.runtime.conditions import ConditionAggregator
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.current_settings import Cluster, CurrentSettings
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.owned_objects import CONFIG_MAPS, SELECTOR, OwnedConfigMap
from transom.kube.client import FIELD_MANAGER
from transom.kube.errors import NotFound, StatusError
from transom.kube.objects import Projected
from transom.kube.queue import KeyQueue, Priority
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey
from transom.proxy import no_proxy
from transom.proxy.settings import Egress

_log: Final = structlog.get_logger("transom.machines")
REFUSED_CHECK: Final = 600.0
"""Seconds until a rollout that the server refused is tried again."""
EDITED: Final = "transom.dev/edited-templates"
"""The annotation of our Secret: which templates were edited, for what, and up to which generation, by their uid."""
_ALL: Final[ObjectKey] = ObjectKey(None, "")
_ALL_DELAY: Final = 1.0


class _WrittenObject(Projected, frozen=True):
    metadata: FieldWriteMeta = FieldWriteMeta()


_SECRETS: Final = Resource("", "v1", "Secret", "secrets", True, _WrittenObject)


class MachinesController:
    """Keys are (namespace, name) of a Cluster, and `_ALL`."""

    def __init__(
        self, informers: Informers, settings: CurrentSettings, reports: ConditionAggregator, *, now: Callable[[], datetime]
    ) -> None:
        self._informers, self._settings, self._reports, self._now = informers, settings, reports, now
        self._clusters = self._informers.clusters
        self._config_maps = self._informers.watch(CONFIG_MAPS, labels=SELECTOR)
        self.templates = ClusterApiStores(self._informers)
        self._pools = MachinePools(self._informers, self.templates)
        self._editor = TemplateEditor(self._informers)
        self._found: dict[ObjectKey, ClusterMachines] = {}
        self._refused: dict[tuple[str, str], tuple[datetime, str]] = {}
        """Clusters whose rollout the server refused: until when they are passed over, and why."""
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def subscribe(self) -> None:
        """Follow the stores, which have been filled."""
        self.templates.subscribe(self.queue.add)
        self._clusters.subscribe(self._on_cluster_change)
        self._config_maps.subscribe(self._on_config_map_change)
        self._settings.subscribe(self._on_settings_change)
        self._settings.subscribe_to_updates(self._schedule_status_update)
        for store in (self.templates.templates, self.templates.control_planes):
            store.subscribe(self._on_delete)

    # --- which object concerns which key

    def _on_cluster_change(self, name: ObjectKey, before: CachedCluster | None, after: CachedCluster | None) -> None:
        if (
            before is None
            or after is None
            or (before.paused, before.requests_entries, before.value) != (after.paused, after.requests_entries, after.value)
        ):
            self.queue.add(name)

    def _on_config_map_change(self, _: ObjectKey, before: OwnedConfigMap | None, after: OwnedConfigMap | None) -> None:
        # the fleet controller writes the ConfigMap after the Secrets that machines boot with
        if (cached := after or before) is None:
            return
        for owner in cached.metadata.owner_references or ():
            if owner.kind == "Cluster":
                self.queue.add(ObjectKey(cached.metadata.namespace, owner.name))

    def _on_settings_change(self, clusters: frozenset[Cluster]) -> None:
        for cluster in clusters:
            if cluster is not None:
                self.queue.add(ObjectKey(*cluster))

    def _on_delete(self, _: ObjectKey, before: Any, after: Any) -> None:
        if after is None and before is not None:
            self._editor.forget(before.metadata.uid)

    def _schedule_status_update(self) -> None:
        self.queue.add(_ALL, Priority.CHECK, after=_ALL_DELAY)

    # --- one cluster

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Examine and edit the templates of one cluster, or look at all clusters. Raises ApiError."""
        if key == _ALL:
            return await self._update_status(leadership)
        cluster = self._clusters.take_snapshot().get(key)
        namespace = key.namespace or ""
        egress = self._settings.for_cluster((namespace, key.name))
        if cluster is None or cluster.deleting:
            self._record_machines(key, None)
            return Result()
        if egress is None:
            # no valid settings since the start: what is there stays
            return Result()
        try:
            identity = get_identity(key.name, cluster.metadata.labels or {})
        except InvalidIdentity:
            self._record_machines(key, None)
            return Result()
        configs = await self._pools.list_configs(leadership.client, namespace, key.name, _list_possible_secrets(identity))
        examined = self._examine_templates(cluster, configs, egress, identity)
        affected = any(item.affected for item in examined)
        secrets = await self._read_secrets(leadership, namespace, _list_secret_names(identity, egress)) if affected else []
        self._editor.restore_record(next(filter(None, (_get_recorded_edits(secret) for secret in secrets)), None))
        examined = self._examine_templates(cluster, configs, egress, identity)
        retry, refused = False, []
        for entry in examined if not cluster.paused else ():
            if not entry.needs_edit or not self._can_edit(entry, key.name):
                continue
            try:
                retry |= not await self._editor.patch(leadership.client, entry)
            except StatusError as error:
                # by a webhook, say: the other templates of the cluster have their turn all the same
                _log.warning("refused", object=entry.name, error=str(error))
                refused.append(f"{entry.name}: {error}")
        await self._record_edits(leadership, secrets, examined)
        changed = _find_latest(
            *(
                managed_field.time
                for secret in secrets
                for managed_field in secret.metadata.managed_fields or ()
                if _is_applied(managed_field)
            )
        )
        self._record_machines(key, self._build_cluster_machines(cluster, egress, identity, examined, changed, tuple(refused)))
        return Result(failed=retry or bool(refused))

    def _examine_templates(
        self, cluster: CachedCluster, configs: list[CachedPoolConfig], egress: Egress, cluster_id: str
    ) -> list[ExaminedTemplate]:
        place = cluster.metadata.namespace or "", cluster.metadata.name
        cached: list[Held] = [*self.templates.list_control_planes(*place), *self.templates.list_templates(*place), *configs]
        return [self._editor.examine(item, egress, cluster_id, is_requested=cluster.requests_entries) for item in cached]

    def _can_edit(self, examined: ExaminedTemplate, cluster: str) -> bool:
        """Return True if an edit only changes what new machines boot with."""
        if examined.kept is not None or self._is_shared(examined):
            return False
        if isinstance(examined.cached, CachedPoolConfig):
            return self._pools.can_edit(examined.cached, cluster)
        # an edit of a control plane that stands is a rollout: its turn comes in `_look`
        return not (isinstance(examined.cached, CachedControlPlane) and examined.cached.initialized)

    def _is_shared(self, examined: ExaminedTemplate) -> bool:
        cached = examined.cached
        return isinstance(cached, CachedTemplate) and len(self.templates.list_template_clusters(cached)) > 1

    async def _read_secrets(self, leadership: Leadership, namespace: str, names: tuple[str, ...]) -> list[_WrittenObject]:
        """Return the existing Secrets that machines boot with."""
        secrets = []
        for name in names:
            with contextlib.suppress(NotFound):
                secrets.append(await leadership.client.get(_SECRETS, name, namespace))
        return secrets

    async def _record_edits(
        self, leadership: Leadership, secrets: list[_WrittenObject], examined: list[ExaminedTemplate]
    ) -> None:
        """Record edits on the first of the Secrets, so that an edit that a person reverted is not repeated after a restart."""
        note = self._editor.format_record(examined)
        if not secrets or note is None or note == _get_recorded_edits(secrets[0]):
            return
        meta = secrets[0].metadata
        with contextlib.suppress(NotFound):
            value = {"metadata": {"annotations": {EDITED: note}}}
            await leadership.client.patch(_SECRETS, value, meta.name, meta.namespace)

    def _build_cluster_machines(
        self,
        cluster: CachedCluster,
        egress: Egress,
        cluster_id: str,
        examined: list[ExaminedTemplate],
        changed: str | None,
        refused: tuple[str, ...],
    ) -> ClusterMachines:
        namespace, name = cluster.metadata.namespace or "", cluster.metadata.name
        return ClusterMachines(
            egress,
            cluster_id,
            cluster.paused,
            cluster.from_class,
            tuple(examined),
            tuple(item.name for item in examined if item.needs_edit and self._is_shared(item)),
            changed,
            (namespace, name),
            refused,
            self._list_unsupported_kinds(cluster, egress),
            self._list_uncovered_addresses(egress, namespace, name),
        )

    def _list_unsupported_kinds(self, cluster: CachedCluster, egress: Egress) -> tuple[str, ...]:
        if not needs_entries(egress):
            return ()
        namespace, name = cluster.metadata.namespace or "", cluster.metadata.name
        reference = cluster.spec.control_plane_ref if cluster.spec is not None else None
        workers: list[CachedDeployment | CachedPool] = [*self.templates.list_deployments(namespace, name)]
        workers += self.templates.list_pools(namespace, name)
        kinds = tuple(dict.fromkeys(kind for worker in workers if (kind := worker.kind)))
        return MachineKinds(reference.kind if reference else None, kinds).unsupported

    def _list_uncovered_addresses(self, egress: Egress, namespace: str, name: str) -> tuple[str, ...]:
        if not egress.no_proxy:
            return ()
        machines = self.templates.list_machines(namespace, name)
        return no_proxy.list_uncovered(
            egress.no_proxy, (address for machine in machines for address in machine.kubelet_addresses)
        )

    def _record_machines(self, key: ObjectKey, machines: ClusterMachines | None) -> None:
        if machines is None:
            self._found.pop(key, None)
        else:
            self._found[key] = machines
        self._schedule_status_update()

    # --- all clusters

    async def _update_status(self, leadership: Leadership) -> Result:
        """Say how many machines are old, and roll whose turn it is. Raises ApiError."""
        if self._settings.newest is None:
            return Result()
        now = self._now()
        standings = {
            key: standing
            for key, item in self._found.items()
            if (standing := self._build_rollout_state(item)).groups or item.affected
        }
        self._refused = {cluster: cached for cluster, cached in self._refused.items() if now < cached[0]}
        decision = machine_rollout.decide_next_steps(
            (standing for standing in standings.values() if standing.cluster not in self._refused), now
        )
        for step in decision.steps:
            try:
                await self._roll_group(step, leadership)
            except StatusError as error:
                # others have their turn until it is tried again
                _log.warning("refused", cluster="/".join(step.cluster), name=step.group.name, error=str(error))
                message = f"{step.group.kind} {step.cluster[0]}/{step.group.name}: {error}"
                self._refused[step.cluster] = (now + timedelta(seconds=REFUSED_CHECK), message)
                self._schedule_status_update()
        refused = {cluster: message for cluster, (_, message) in self._refused.items()}
        conditions = machines_status.build_conditions(self._informers.get_objects(), self._found, standings, decision, refused)
        self._reports.set_conditions("machines", conditions)
        again = machine_rollout.compute_next_check(standings.values(), now)
        return Result(again=min(again or REFUSED_CHECK, REFUSED_CHECK) if refused else again)

    def _build_rollout_state(self, machines: ClusterMachines) -> MachinesRolloutState:
        groups = []
        namespace, name = machines.cluster
        by_name = {item.cached.metadata.name: item for item in machines.examined if isinstance(item.cached, CachedTemplate)}
        for entry in machines.examined:
            if isinstance(entry.cached, CachedControlPlane) and entry.affected:
                groups.append(self._build_control_plane_group(entry.cached, entry, machines))
        for deployment in self.templates.list_deployments(namespace, name):
            template = by_name.get(deployment.template or "")
            if template is not None and template.affected:
                groups.append(self._build_deployment_group(deployment, template, machines))
        pools = (
            self._pools.build_group(item, machines.cluster, machines.changed) for item in machines.examined if item.affected
        )
        groups += [pool for pool in pools if pool is not None]
        return MachinesRolloutState(machines.cluster, tuple(groups), machines.egress.rollout == "Automatic", machines.paused)

    def _build_control_plane_group(
        self, cached: CachedControlPlane, examined: ExaminedTemplate, cluster_machines: ClusterMachines
    ) -> MachineGroup:
        machines = [
            item for item in self.templates.list_machines(*cluster_machines.cluster) if item.labels.control_plane is not None
        ]
        edited = cached.metadata.last_own_edit_time
        missing = bool(examined.edit.operations) and cached.initialized
        return _build_group(
            "KubeadmControlPlane",
            cached,
            [machine.metadata.creation_timestamp or "" for machine in machines],
            _find_latest(cluster_machines.changed, edited),
            to_edit=missing and not examined.taken_back,
            all_old=missing,
            kept=examined.kept,
        )

    def _build_deployment_group(
        self, cached: CachedDeployment, template: ExaminedTemplate, cluster_machines: ClusterMachines
    ) -> MachineGroup:
        name = cached.metadata.name
        machines = [item for item in self.templates.list_machines(*cluster_machines.cluster) if item.labels.deployment == name]
        missing = bool(template.edit.operations)
        return _build_group(
            "MachineDeployment",
            cached,
            [machine.metadata.creation_timestamp or "" for machine in machines],
            _find_latest(cluster_machines.changed, template.cached.metadata.last_own_edit_time),
            to_edit=False,
            all_old=missing,
            # without the entries new machines would be no better
            kept=find_deployment_manager(cached)
            or ("OnDelete" if cached.uses_on_delete_strategy else template.kept or "its template" if missing else None),
        )

    def _is_edit_of_step(self, examined: ExaminedTemplate, step: RolloutStep) -> bool:
        """Return True if an edit of the templates rolls out that group."""
        cached = examined.cached
        if isinstance(cached, CachedPoolConfig):
            pool = self._pools.find_pool(cached, step.cluster[1])
            return step.group.is_machine_pool and pool is not None and pool.metadata.name == step.group.name
        return (
            isinstance(cached, CachedControlPlane)
            and not step.group.is_machine_pool
            and cached.metadata.name == step.group.name
        )

    async def _roll_group(self, step: RolloutStep, leadership: Leadership) -> None:
        """Start the rollout of one group: by an edit of its template if there is one to make, else as Cluster API does."""
        namespace, name = step.cluster
        machines = self._found.get(ObjectKey(*step.cluster))
        if step.group.to_edit:
            for item in machines.examined if machines else ():
                if item.needs_edit and self._is_edit_of_step(item, step):
                    await self._editor.patch(leadership.client, item)
                    self.queue.add(ObjectKey(*step.cluster))
            return
        resource: Resource[Any] | None = self._informers.get_served_resource(
            CONTROL_PLANES if step.group.kind == CONTROL_PLANES.kind else DEPLOYMENTS
        )
        if resource is None:
            return
        # machines made since then boot with the change already, whatever our clock says
        after = step.group.changed or format_timestamp(self._now().astimezone(UTC))
        spec = {"rolloutAfter": after} if resource.version == "v1beta1" else {"rollout": {"after": after}}
        try:
            await leadership.client.patch(resource, {"spec": spec}, step.group.name, namespace, ROLLOUT_MANAGER)
        except NotFound:
            return
        _log.info("rollout begun", cluster=f"{namespace}/{name}", kind=step.group.kind, name=step.group.name)


def _build_group(
    kind: machine_rollout.Kind,
    cached: CachedControlPlane | CachedDeployment,
    creation_times: list[str],
    changed: str | None,
    *,
    to_edit: bool,
    all_old: bool,
    kept: str | None,
) -> MachineGroup:
    status = cached.status
    return MachineGroup(
        kind,
        cached.metadata.name,
        len(creation_times),
        len(creation_times) if all_old else sum(changed is not None and time < changed for time in creation_times),
        cached.spec.replicas if cached.spec.replicas is not None else 1,
        (status.ready_replicas or 0) if status else 0,
        changed,
        cached.rollout_after,
        cached.metadata.last_rollout_time,
        max(creation_times, default=None),
        to_edit,
        kept,
    )


def _list_secret_names(cluster_id: str, egress: Egress) -> tuple[str, ...]:
    """Return the names of the Secrets that machines boot with."""
    return build_systemd_name(cluster_id, own_name=egress.own_drop_in), windows_name(cluster_id)


def _list_possible_secrets(cluster_id: str) -> tuple[str, ...]:
    """Return these Secrets under every name that they can have."""
    return *build_systemd_names(cluster_id), windows_name(cluster_id)


def _get_recorded_edits(secret: _WrittenObject) -> str | None:
    return (secret.metadata.annotations or {}).get(EDITED)


def _is_applied(entry: FieldWrite) -> bool:
    return entry.manager == FIELD_MANAGER and entry.operation == "Apply"


def _find_latest(*times: str | None) -> str | None:
    return max((time for time in times if time), default=None)
