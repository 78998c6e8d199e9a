"""The machines of workload clusters: entries in their templates, and a rollout where one is asked for.

A key is a Cluster: its templates are examined and, where they let us, edited. One more key, without a name, looks at all
clusters together: how many machines are older than their settings, and which cluster's turn it is.
"""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog

from transom.capi.identity import InvalidIdentity, identity_of, systemd_name
from transom.capi.windows_proxy import secret_name as windows_name
from transom.controllers.machines import (
    CONTROL_PLANES,
    DEPLOYMENTS,
    ROLLOUT_MANAGER,
    CachedControlPlane,
    CachedDeployment,
    CachedPoolConfig,
    CachedTemplate,
    Written,
    WrittenMeta,
)
from transom.controllers.machines import rollout as machine_rollout
from transom.controllers.machines import status as machines_status
from transom.controllers.machines.pools import MachinePools
from transom.controllers.machines.rollout import Group, MachinesStanding, RolloutStep
from transom.controllers.machines.status import ClusterMachines
from transom.controllers.machines.template_edits import ExaminedTemplates, Held, TemplateEditor, keeper_of
from transom.controllers.machines.templates import MachineTemplates
from transom.controllers.runtime.cached import CachedCluster
from transom.controllers.runtime.conditions import ConditionAggregator, timestamp
from transom.controllers.runtime.controller import Leadership, Result
from transom.controllers.runtime.informers import Informers
from transom.controllers.runtime.owned import CONFIG_MAPS, SELECTOR, OwnedConfigMap
from transom.controllers.runtime.settings import Cluster, CurrentSettings
from transom.kube import NotFound, StatusError
from transom.kube.client import FIELD_MANAGER
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
    metadata: WrittenMeta = WrittenMeta()


_SECRETS: Final = Resource("", "v1", "Secret", "secrets", True, _WrittenObject)


class MachinesController:
    """Keys are (namespace, name) of a Cluster, and `_ALL`."""

    def __init__(
        self, informers: Informers, settings: CurrentSettings, reports: ConditionAggregator, *, now: Callable[[], datetime]
    ) -> None:
        self._informers, self._settings, self._reports, self._now = informers, settings, reports, now
        self._clusters = self._informers.clusters
        self._config_maps = self._informers.watch(CONFIG_MAPS, labels=SELECTOR)
        self.templates = MachineTemplates(self._informers)
        self._pools = MachinePools(self._informers, self.templates)
        self._editor = TemplateEditor(self._informers)
        self._found: dict[ObjectKey, ClusterMachines] = {}
        self._refused: dict[tuple[str, str], tuple[datetime, str]] = {}
        """Clusters whose rollout the server refused: until when they are passed over, and why."""
        self.queue: KeyQueue[ObjectKey] = KeyQueue()

    def begin(self) -> None:
        """Follow the stores, which have been filled."""
        self.templates.subscribe(self.queue.add)
        self._clusters.subscribe(self._cluster_changed)
        self._config_maps.subscribe(self._objects_written)
        self._settings.subscribe(self._settings_changed)
        self._settings.on_update(self._look_soon)
        for store in (self.templates.templates, self.templates.control_planes):
            store.subscribe(self._gone)

    # --- which object concerns which key

    def _cluster_changed(self, name: ObjectKey, before: CachedCluster | None, after: CachedCluster | None) -> None:
        if (
            before is None
            or after is None
            or (before.paused, before.asks, before.value) != (after.paused, after.asks, after.value)
        ):
            self.queue.add(name)

    def _objects_written(self, _: ObjectKey, before: OwnedConfigMap | None, after: OwnedConfigMap | None) -> None:
        # the fleet controller writes the ConfigMap after the Secrets that machines boot with
        if (cached := after or before) is None:
            return
        for owner in cached.metadata.owner_references or ():
            if owner.kind == "Cluster":
                self.queue.add(ObjectKey(cached.metadata.namespace, owner.name))

    def _settings_changed(self, clusters: frozenset[Cluster]) -> None:
        for cluster in clusters:
            if cluster is not None:
                self.queue.add(ObjectKey(*cluster))

    def _gone(self, _: ObjectKey, before: Any, after: Any) -> None:
        if after is None and before is not None:
            self._editor.forget(before.metadata.uid)

    def _look_soon(self) -> None:
        self.queue.add(_ALL, Priority.CHECK, after=_ALL_DELAY)

    # --- one cluster

    async def reconcile(self, key: ObjectKey, leadership: Leadership) -> Result:
        """Examine and edit the templates of one cluster, or look at all clusters. Raises ApiError."""
        if key == _ALL:
            return await self._look(leadership)
        cluster = self._clusters.snapshot().get(key)
        namespace = key.namespace or ""
        egress = self._settings.of_cluster((namespace, key.name))
        if cluster is None or cluster.deleting:
            self._note(key, None)
            return Result()
        if egress is None:
            # no valid settings since the start: what is there stays
            return Result()
        try:
            identity = identity_of(key.name, cluster.metadata.labels or {})
        except InvalidIdentity:
            self._note(key, None)
            return Result()
        configs = await self._pools.configs_of(leadership.client, namespace, key.name, _secret_names(identity))
        examined = self._examined(cluster, configs, egress, identity)
        affected = any(one.affected for one in examined)
        secrets = await self._secrets(leadership, namespace, identity) if affected else []
        self._editor.remember(next(filter(None, (_noted(one) for one in secrets)), None))
        examined = self._examined(cluster, configs, egress, identity)
        retry, refused = False, []
        for one in examined if not cluster.paused else ():
            if not one.to_edit or not self._may_edit(one, key.name):
                continue
            try:
                retry |= not await self._editor.patch(leadership.client, one)
            except StatusError as error:
                # by a webhook, say: the other templates of the cluster have their turn all the same
                _log.warning("refused", object=one.name, error=str(error))
                refused.append(f"{one.name}: {error}")
        await self._keep_note(leadership, secrets, examined)
        changed = _latest(*(one.time for secret in secrets for one in secret.metadata.managed_fields or () if _applied(one)))
        self._note(key, self._machines(cluster, egress, identity, examined, changed, tuple(refused)))
        return Result(failed=retry or bool(refused))

    def _examined(
        self, cluster: CachedCluster, configs: list[CachedPoolConfig], egress: Egress, identity: str
    ) -> list[ExaminedTemplates]:
        place = cluster.metadata.namespace or "", cluster.metadata.name
        cached: list[Held] = [*self.templates.control_planes_of(*place), *self.templates.templates_of(*place), *configs]
        return [self._editor.examine(one, egress, identity, asked=cluster.asks) for one in cached]

    def _may_edit(self, examined: ExaminedTemplates, cluster: str) -> bool:
        """Whether an edit changes what new machines boot with, and nothing else."""
        if examined.kept is not None or self._shared(examined):
            return False
        if isinstance(examined.cached, CachedPoolConfig):
            return self._pools.may_edit(examined.cached, cluster)
        # an edit of a control plane that stands is a rollout: its turn comes in `_look`
        return not (isinstance(examined.cached, CachedControlPlane) and examined.cached.initialized)

    def _shared(self, examined: ExaminedTemplates) -> bool:
        cached = examined.cached
        return isinstance(cached, CachedTemplate) and len(self.templates.clusters_of(cached)) > 1

    async def _secrets(self, leadership: Leadership, namespace: str, identity: str) -> list[_WrittenObject]:
        """The Secrets that machines boot with, as far as they are there."""
        found = []
        for name in _secret_names(identity):
            with contextlib.suppress(NotFound):
                found.append(await leadership.client.get(_SECRETS, name, namespace))
        return found

    async def _keep_note(
        self, leadership: Leadership, secrets: list[_WrittenObject], examined: list[ExaminedTemplates]
    ) -> None:
        """What was edited is noted on the first of the Secrets: what is taken back is not put there after a restart either."""
        note = self._editor.note(examined)
        if not secrets or note is None or note == _noted(secrets[0]):
            return
        meta = secrets[0].metadata
        with contextlib.suppress(NotFound):
            value = {"metadata": {"annotations": {EDITED: note}}}
            await leadership.client.patch(_SECRETS, value, meta.name, meta.namespace)

    def _machines(
        self,
        cluster: CachedCluster,
        egress: Egress,
        identity: str,
        examined: list[ExaminedTemplates],
        changed: str | None,
        refused: tuple[str, ...],
    ) -> ClusterMachines:
        namespace, name = cluster.metadata.namespace or "", cluster.metadata.name
        return ClusterMachines(
            egress,
            identity,
            cluster.paused,
            cluster.from_class,
            tuple(examined),
            tuple(one.name for one in examined if one.to_edit and self._shared(one)),
            changed,
            (namespace, name),
            refused,
            self._uncovered(egress, namespace, name),
        )

    def _uncovered(self, egress: Egress, namespace: str, name: str) -> tuple[str, ...]:
        if not egress.no_proxy:
            return ()
        machines = self.templates.machines_of(namespace, name)
        return no_proxy.uncovered(egress.no_proxy, (address for one in machines for address in one.reached_at))

    def _note(self, key: ObjectKey, found: ClusterMachines | None) -> None:
        if found is None:
            self._found.pop(key, None)
        else:
            self._found[key] = found
        self._look_soon()

    # --- all clusters

    async def _look(self, leadership: Leadership) -> Result:
        """Say how many machines are old, and roll whose turn it is. Raises ApiError."""
        if self._settings.newest is None:
            return Result()
        now = self._now()
        standings = {
            key: standing for key, found in self._found.items() if (standing := self._standing(found)).groups or found.affected
        }
        self._refused = {cluster: cached for cluster, cached in self._refused.items() if now < cached[0]}
        decision = machine_rollout.decide((one for one in standings.values() if one.cluster not in self._refused), now)
        for step in decision.steps:
            try:
                await self._roll(step, leadership)
            except StatusError as error:
                # others have their turn until it is tried again
                _log.warning("refused", cluster="/".join(step.cluster), name=step.group.name, error=str(error))
                message = f"{step.group.kind} {step.cluster[0]}/{step.group.name}: {error}"
                self._refused[step.cluster] = (now + timedelta(seconds=REFUSED_CHECK), message)
                self._look_soon()
        refused = {cluster: message for cluster, (_, message) in self._refused.items()}
        said = machines_status.conditions(self._informers.objects(), self._found, standings, decision, refused)
        self._reports.put("machines", said)
        again = machine_rollout.next_look(standings.values(), now)
        return Result(again=min(again or REFUSED_CHECK, REFUSED_CHECK) if refused else again)

    def _standing(self, found: ClusterMachines) -> MachinesStanding:
        groups = []
        namespace, name = found.cluster
        by_name = {one.cached.metadata.name: one for one in found.examined if isinstance(one.cached, CachedTemplate)}
        for one in found.examined:
            if isinstance(one.cached, CachedControlPlane) and one.affected:
                groups.append(self._control_plane_group(one, found))
        for deployment in self.templates.deployments_of(namespace, name):
            template = by_name.get(deployment.template or "")
            if template is not None and template.affected:
                groups.append(self._deployment_group(deployment, template, found))
        pools = (self._pools.group(one, found.cluster, found.changed) for one in found.examined if one.affected)
        groups += [one for one in pools if one is not None]
        return MachinesStanding(found.cluster, tuple(groups), found.egress.rollout == "Automatic", found.paused)

    def _control_plane_group(self, examined: ExaminedTemplates, found: ClusterMachines) -> Group:
        cached = examined.cached
        assert isinstance(cached, CachedControlPlane)  # asked before
        machines = [one for one in self.templates.machines_of(*found.cluster) if one.labels.control_plane is not None]
        edited = cached.metadata.edited
        missing = bool(examined.edit.operations) and cached.initialized
        return _group(
            "KubeadmControlPlane",
            cached,
            [one.metadata.creation_timestamp or "" for one in machines],
            _latest(found.changed, edited),
            to_edit=missing and not examined.taken_back,
            all_old=missing,
            kept=examined.kept,
        )

    def _deployment_group(self, cached: CachedDeployment, template: ExaminedTemplates, found: ClusterMachines) -> Group:
        name = cached.metadata.name
        machines = [one for one in self.templates.machines_of(*found.cluster) if one.labels.deployment == name]
        missing = bool(template.edit.operations)
        return _group(
            "MachineDeployment",
            cached,
            [one.metadata.creation_timestamp or "" for one in machines],
            _latest(found.changed, template.cached.metadata.edited),
            to_edit=False,
            all_old=missing,
            # without the entries new machines would be no better
            kept=keeper_of(cached)
            or ("OnDelete" if cached.on_delete else template.kept or "its template" if missing else None),
        )

    def _edited_for(self, examined: ExaminedTemplates, step: RolloutStep) -> bool:
        """Whether an edit of it is the rollout of that group."""
        cached = examined.cached
        if isinstance(cached, CachedPoolConfig):
            pool = self._pools.pool_of(cached, step.cluster[1])
            return step.group.of_pool and pool is not None and pool.metadata.name == step.group.name
        return isinstance(cached, CachedControlPlane) and not step.group.of_pool and cached.metadata.name == step.group.name

    async def _roll(self, step: RolloutStep, leadership: Leadership) -> None:
        """Ask for the rollout of one group: by its template where that is to be edited, else the Cluster API way."""
        namespace, name = step.cluster
        found = self._found.get(ObjectKey(*step.cluster))
        if step.group.to_edit:
            for one in found.examined if found else ():
                if one.to_edit and self._edited_for(one, step):
                    await self._editor.patch(leadership.client, one)
                    self.queue.add(ObjectKey(*step.cluster))
            return
        resource: Resource[Any] | None = self._informers.served(
            CONTROL_PLANES if step.group.kind == CONTROL_PLANES.kind else DEPLOYMENTS
        )
        if resource is None:
            return
        # machines made since then boot with the change already, whatever our clock says
        after = step.group.changed or timestamp(self._now().astimezone(UTC))
        spec = {"rolloutAfter": after} if resource.version == "v1beta1" else {"rollout": {"after": after}}
        try:
            await leadership.client.patch(resource, {"spec": spec}, step.group.name, namespace, ROLLOUT_MANAGER)
        except NotFound:
            return
        _log.info("rollout begun", cluster=f"{namespace}/{name}", kind=step.group.kind, name=step.group.name)


def _group(
    kind: machine_rollout.Kind,
    cached: CachedControlPlane | CachedDeployment,
    born: list[str],
    changed: str | None,
    *,
    to_edit: bool,
    all_old: bool,
    kept: str | None,
) -> Group:
    status = cached.status
    return Group(
        kind,
        cached.metadata.name,
        len(born),
        len(born) if all_old else sum(changed is not None and time < changed for time in born),
        cached.spec.replicas if cached.spec.replicas is not None else 1,
        (status.ready_replicas or 0) if status else 0,
        changed,
        cached.rollout_after,
        cached.metadata.rolled,
        max(born, default=None),
        to_edit,
        kept,
    )


def _secret_names(identity: str) -> tuple[str, str]:
    """The Secrets that machines boot with."""
    return systemd_name(identity), windows_name(identity)


def _noted(secret: _WrittenObject) -> str | None:
    return (secret.metadata.annotations or {}).get(EDITED)


def _applied(entry: Written) -> bool:
    return entry.manager == FIELD_MANAGER and entry.operation == "Apply"


def _latest(*times: str | None) -> str | None:
    return max((time for time in times if time), default=None)
