"""Which templates and control planes there are of a cluster, what they name, and what machines came of them."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from transom.capi.injection import on_windows, secrets_named
from transom.controllers.machines import (
    CLUSTER_NAME,
    CONFIGS,
    CONTROL_PLANES,
    DEPLOYMENTS,
    MACHINES,
    POOLS,
    TEMPLATES,
    CachedConfig,
    CachedControlPlane,
    CachedDeployment,
    CachedMachine,
    CachedPool,
    CachedTemplate,
    place,
)
from transom.controllers.runtime.informers import Informers
from transom.kube.store import ObjectKey

Listener = Callable[[ObjectKey], None]
"""Told of a Cluster, as (namespace, name)."""
_NAMES: Final = "names"
_CLUSTER: Final = "cluster"
_TEMPLATE: Final = "template"


class MachineTemplates:
    """Questions about the stores of Cluster API's kinds. Made by each controller that asks; the stores are shared."""

    def __init__(self, informers: Informers) -> None:
        self.templates = informers.watch(TEMPLATES, indexes={_NAMES: _secrets_of_template, _CLUSTER: _cluster_of})
        self.control_planes = informers.watch(CONTROL_PLANES, indexes={_NAMES: _secrets_of_template, _CLUSTER: _cluster_of})
        self.configs = informers.watch(CONFIGS, indexes={_NAMES: _secrets_of_config})
        self.deployments = informers.watch(DEPLOYMENTS, indexes={_CLUSTER: _cluster_of_deployment, _TEMPLATE: _template_of})
        self.pools = informers.watch(POOLS, indexes={_CLUSTER: _cluster_of_deployment})
        self.machines = informers.watch(MACHINES, indexes={_CLUSTER: _cluster_of_machine})

    def names(self, namespace: str, secret: str) -> bool:
        """Whether a template, a control plane or a machine's configuration names that Secret."""
        wanted = place(namespace, secret)
        return (
            bool(self.templates.snapshot().by(_NAMES, wanted))
            or bool(self.control_planes.snapshot().by(_NAMES, wanted))
            or bool(self.configs.snapshot().by(_NAMES, wanted))
        )

    def windows(self, namespace: str, cluster: str) -> bool:
        """Whether the cluster has a template for Windows machines."""
        return any(on_windows(one.configuration or {}) for one in self.templates_of(namespace, cluster))

    def templates_of(self, namespace: str, cluster: str) -> list[CachedTemplate]:
        """The templates that say that they are of the cluster, and those that its MachineDeployments refer to."""
        wanted = place(namespace, cluster)
        snapshot = self.templates.snapshot()
        found = {one.metadata.name: one for one in snapshot.by(_CLUSTER, wanted)}
        for deployment in self.deployments_of(namespace, cluster):
            if deployment.template and (template := snapshot.named(deployment.template, namespace)):
                found[deployment.template] = template
        return [found[name] for name in sorted(found)]

    def control_planes_of(self, namespace: str, cluster: str) -> list[CachedControlPlane]:
        """The control planes of the cluster: one, but for mistakes."""
        return self.control_planes.snapshot().by(_CLUSTER, place(namespace, cluster))

    def deployments_of(self, namespace: str, cluster: str) -> list[CachedDeployment]:
        """The MachineDeployments of the cluster."""
        return self.deployments.snapshot().by(_CLUSTER, place(namespace, cluster))

    def pools_of(self, namespace: str, cluster: str, secrets: Collection[str]) -> list[CachedPool]:
        """The MachinePools of the cluster whose configuration asks for our entries, or names one of these Secrets."""
        configs = self.configs.snapshot()
        found = []
        for pool in self.all_pools_of(namespace, cluster):
            config = configs.named(pool.config, namespace) if pool.config else None
            if config is not None and (config.asks or not set(secrets).isdisjoint(config.secrets)):
                found.append(pool)
        return found

    def all_pools_of(self, namespace: str, cluster: str) -> list[CachedPool]:
        """The MachinePools of the cluster."""
        return self.pools.snapshot().by(_CLUSTER, place(namespace, cluster))

    def machines_of(self, namespace: str, cluster: str) -> list[CachedMachine]:
        """The Machines of the cluster."""
        return self.machines.snapshot().by(_CLUSTER, place(namespace, cluster))

    def clusters_of(self, template: CachedTemplate) -> frozenset[str]:
        """The clusters that a template is used in: it can be edited for one alone."""
        namespace, name = template.metadata.namespace, template.metadata.name
        used = {one.spec.cluster_name for one in self.deployments.snapshot().by(_TEMPLATE, place(namespace, name))}
        own = template.metadata.cluster
        return frozenset(used | ({own} if own else set()))

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each Cluster whose answers may have changed."""

        def template_changed(name: ObjectKey, before: CachedTemplate | None, after: CachedTemplate | None) -> None:
            for template in filter(None, (before, after)):
                for cluster in self.clusters_of(template):
                    listener(ObjectKey(name.namespace or "", cluster))

        def control_plane_changed(name: ObjectKey, before: CachedControlPlane | None, after: CachedControlPlane | None) -> None:
            for one in filter(None, (before, after)):
                if cluster := one.metadata.cluster:
                    listener(ObjectKey(name.namespace or "", cluster))

        def config_changed(name: ObjectKey, before: CachedConfig | None, after: CachedConfig | None) -> None:
            if (
                before is not None
                and after is not None
                and set(before.secrets) == set(after.secrets)
                and not (before.asks or after.asks)
            ):
                return
            for config in filter(None, (before, after)):
                if cluster := _label(config):
                    listener(ObjectKey(name.namespace or "", cluster))

        def deployment_changed(
            name: ObjectKey, before: CachedDeployment | CachedPool | None, after: CachedDeployment | CachedPool | None
        ) -> None:
            for using in (before, after):
                if using is not None:
                    listener(ObjectKey(name.namespace or "", using.spec.cluster_name))

        def machine_changed(name: ObjectKey, before: CachedMachine | None, after: CachedMachine | None) -> None:
            # that there are machines says what is outdated, where they are what is covered; what becomes of one does not
            same = before is not None and after is not None and before.reached_at == after.reached_at
            if not same and (machine := after or before) and machine.labels.cluster:
                listener(ObjectKey(name.namespace or "", machine.labels.cluster))

        self.templates.subscribe(template_changed)
        self.control_planes.subscribe(control_plane_changed)
        self.configs.subscribe(config_changed)
        self.deployments.subscribe(deployment_changed)
        self.pools.subscribe(deployment_changed)
        self.machines.subscribe(machine_changed)


def _secrets_of_template(cached: CachedTemplate | CachedControlPlane) -> Iterator[str]:
    for name in secrets_named(cached.configuration or {}):
        yield place(cached.metadata.namespace, name)


def _secrets_of_config(cached: CachedConfig) -> Iterator[str]:
    for name in cached.secrets:
        yield place(cached.metadata.namespace, name)


def _cluster_of(cached: CachedTemplate | CachedControlPlane) -> Iterator[str]:
    if cluster := cached.metadata.cluster:
        yield place(cached.metadata.namespace, cluster)


def _cluster_of_deployment(cached: CachedDeployment | CachedPool) -> Iterator[str]:
    yield place(cached.metadata.namespace, cached.spec.cluster_name)


def _template_of(cached: CachedDeployment) -> Iterator[str]:
    if cached.template:
        yield place(cached.metadata.namespace, cached.template)


def _cluster_of_machine(cached: CachedMachine) -> Iterator[str]:
    if cached.labels.cluster:
        yield place(cached.metadata.namespace, cached.labels.cluster)


def _label(config: CachedConfig) -> str | None:
    return (config.metadata.labels or {}).get(CLUSTER_NAME)
