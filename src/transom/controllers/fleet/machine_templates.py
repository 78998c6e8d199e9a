"""Which templates and control planes there are of a cluster, what they name, and what machines came of them."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from transom.capi.injection import on_windows, secrets_named
from transom.controllers.fleet.machine_kinds import (
    CLUSTER_NAME,
    CONFIGS,
    CONTROL_PLANES,
    DEPLOYMENTS,
    MACHINES,
    POOLS,
    TEMPLATES,
    HeldConfig,
    HeldControlPlane,
    HeldDeployment,
    HeldMachine,
    HeldPool,
    HeldTemplate,
    place,
)
from transom.controllers.watched import Watched
from transom.kube.store import Name

Listener = Callable[[Name], None]
"""Told of a Cluster, as (namespace, name)."""
_NAMES: Final = "names"
_CLUSTER: Final = "cluster"
_TEMPLATE: Final = "template"


class MachineTemplates:
    """Questions about the stores of Cluster API's kinds. Made by each controller that asks; the stores are shared."""

    def __init__(self, watched: Watched) -> None:
        self.templates = watched.watch(TEMPLATES, indexes={_NAMES: _secrets_of_template, _CLUSTER: _cluster_of})
        self.control_planes = watched.watch(CONTROL_PLANES, indexes={_NAMES: _secrets_of_template, _CLUSTER: _cluster_of})
        self.configs = watched.watch(CONFIGS, indexes={_NAMES: _secrets_of_config})
        self.deployments = watched.watch(DEPLOYMENTS, indexes={_CLUSTER: _cluster_of_deployment, _TEMPLATE: _template_of})
        self.pools = watched.watch(POOLS, indexes={_CLUSTER: _cluster_of_deployment})
        self.machines = watched.watch(MACHINES, indexes={_CLUSTER: _cluster_of_machine})

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

    def templates_of(self, namespace: str, cluster: str) -> list[HeldTemplate]:
        """The templates that say that they are of the cluster, and those that its MachineDeployments refer to."""
        wanted = place(namespace, cluster)
        snapshot = self.templates.snapshot()
        found = {one.metadata.name: one for one in snapshot.by(_CLUSTER, wanted)}
        for deployment in self.deployments_of(namespace, cluster):
            if deployment.template and (template := snapshot.get(deployment.template, namespace)):
                found[deployment.template] = template
        return [found[name] for name in sorted(found)]

    def control_planes_of(self, namespace: str, cluster: str) -> list[HeldControlPlane]:
        """The control planes of the cluster: one, but for mistakes."""
        return self.control_planes.snapshot().by(_CLUSTER, place(namespace, cluster))

    def deployments_of(self, namespace: str, cluster: str) -> list[HeldDeployment]:
        """The MachineDeployments of the cluster."""
        return self.deployments.snapshot().by(_CLUSTER, place(namespace, cluster))

    def pools_of(self, namespace: str, cluster: str, secrets: Collection[str]) -> list[HeldPool]:
        """The MachinePools of the cluster whose machines boot with one of these Secrets."""
        configs = self.configs.snapshot()
        found = []
        for pool in self.pools.snapshot().by(_CLUSTER, place(namespace, cluster)):
            config = configs.get(pool.config, namespace) if pool.config else None
            if config is not None and not set(secrets).isdisjoint(config.secrets):
                found.append(pool)
        return found

    def machines_of(self, namespace: str, cluster: str) -> list[HeldMachine]:
        """The Machines of the cluster."""
        return self.machines.snapshot().by(_CLUSTER, place(namespace, cluster))

    def clusters_of(self, template: HeldTemplate) -> frozenset[str]:
        """The clusters that a template is used in: it can be edited for one alone."""
        namespace, name = template.metadata.namespace, template.metadata.name
        used = {one.spec.cluster_name for one in self.deployments.snapshot().by(_TEMPLATE, place(namespace, name))}
        own = template.metadata.cluster
        return frozenset(used | ({own} if own else set()))

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each Cluster whose answers may have changed."""

        def template_changed(name: Name, before: HeldTemplate | None, after: HeldTemplate | None) -> None:
            for template in filter(None, (before, after)):
                for cluster in self.clusters_of(template):
                    listener((name[0] or "", cluster))

        def control_plane_changed(name: Name, before: HeldControlPlane | None, after: HeldControlPlane | None) -> None:
            for one in filter(None, (before, after)):
                if cluster := one.metadata.cluster:
                    listener((name[0] or "", cluster))

        def config_changed(name: Name, before: HeldConfig | None, after: HeldConfig | None) -> None:
            if before is not None and after is not None and set(before.secrets) == set(after.secrets):
                return
            for config in filter(None, (before, after)):
                if cluster := _label(config):
                    listener((name[0] or "", cluster))

        def deployment_changed(
            name: Name, before: HeldDeployment | HeldPool | None, after: HeldDeployment | HeldPool | None
        ) -> None:
            for using in (before, after):
                if using is not None:
                    listener((name[0] or "", using.spec.cluster_name))

        def machine_changed(name: Name, before: HeldMachine | None, after: HeldMachine | None) -> None:
            # that there are machines says what is outdated; what becomes of one does not
            if (before is None or after is None) and (machine := after or before) and machine.labels.cluster:
                listener((name[0] or "", machine.labels.cluster))

        self.templates.subscribe(template_changed)
        self.control_planes.subscribe(control_plane_changed)
        self.configs.subscribe(config_changed)
        self.deployments.subscribe(deployment_changed)
        self.pools.subscribe(deployment_changed)
        self.machines.subscribe(machine_changed)


def _secrets_of_template(held: HeldTemplate | HeldControlPlane) -> Iterator[str]:
    for name in secrets_named(held.configuration or {}):
        yield place(held.metadata.namespace, name)


def _secrets_of_config(held: HeldConfig) -> Iterator[str]:
    for name in held.secrets:
        yield place(held.metadata.namespace, name)


def _cluster_of(held: HeldTemplate | HeldControlPlane) -> Iterator[str]:
    if cluster := held.metadata.cluster:
        yield place(held.metadata.namespace, cluster)


def _cluster_of_deployment(held: HeldDeployment | HeldPool) -> Iterator[str]:
    yield place(held.metadata.namespace, held.spec.cluster_name)


def _template_of(held: HeldDeployment) -> Iterator[str]:
    if held.template:
        yield place(held.metadata.namespace, held.template)


def _cluster_of_machine(held: HeldMachine) -> Iterator[str]:
    if held.labels.cluster:
        yield place(held.metadata.namespace, held.labels.cluster)


def _label(config: HeldConfig) -> str | None:
    return (config.metadata.labels or {}).get(CLUSTER_NAME)
