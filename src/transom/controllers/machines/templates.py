"""Which templates and control planes there are of a cluster, what they name, and what machines came of them."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from transom.capi.bootstrap.injection import is_for_windows, list_secret_names
from transom.controllers.machines.machine_objects import (
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
    build_index_value,
)
from transom.controllers.runtime.informers import Informers
from transom.kube.store import ObjectKey

Listener = Callable[[ObjectKey], None]
"""Called with a Cluster, as (namespace, name)."""
_NAMES: Final = "names"
_CLUSTER: Final = "cluster"
_TEMPLATE: Final = "template"


class ClusterApiStores:
    """Questions about the stores of Cluster API's kinds. Made by each controller that asks; the stores are shared."""

    def __init__(self, informers: Informers) -> None:
        self.templates = informers.watch(TEMPLATES, indexes={_NAMES: _index_template_secrets, _CLUSTER: _index_cluster})
        self.control_planes = informers.watch(
            CONTROL_PLANES, indexes={_NAMES: _index_template_secrets, _CLUSTER: _index_cluster}
        )
        self.configs = informers.watch(CONFIGS, indexes={_NAMES: _index_config_secrets})
        self.deployments = informers.watch(
            DEPLOYMENTS, indexes={_CLUSTER: _index_deployment_cluster, _TEMPLATE: _index_template}
        )
        self.pools = informers.watch(POOLS, indexes={_CLUSTER: _index_deployment_cluster})
        self.machines = informers.watch(MACHINES, indexes={_CLUSTER: _index_machine_cluster})

    def is_secret_referenced(self, namespace: str, secret: str) -> bool:
        """Return True if a template, a control plane or a machine's configuration names that Secret."""
        wanted = build_index_value(namespace, secret)
        return (
            bool(self.templates.take_snapshot().list_by_index(_NAMES, wanted))
            or bool(self.control_planes.take_snapshot().list_by_index(_NAMES, wanted))
            or bool(self.configs.take_snapshot().list_by_index(_NAMES, wanted))
        )

    def has_windows_templates(self, namespace: str, cluster: str) -> bool:
        """Return True if the cluster has a template for Windows machines."""
        return any(is_for_windows(item.configuration or {}) for item in self.list_templates(namespace, cluster))

    def list_templates(self, namespace: str, cluster: str) -> list[CachedTemplate]:
        """Return the templates labelled with the cluster and those to which its MachineDeployments refer."""
        wanted = build_index_value(namespace, cluster)
        snapshot = self.templates.take_snapshot()
        templates = {item.metadata.name: item for item in snapshot.list_by_index(_CLUSTER, wanted)}
        for deployment in self.list_deployments(namespace, cluster):
            if deployment.template and (template := snapshot.find_named(deployment.template, namespace)):
                templates[deployment.template] = template
        return [templates[name] for name in sorted(templates)]

    def list_control_planes(self, namespace: str, cluster: str) -> list[CachedControlPlane]:
        """Return the control planes of the cluster, normally one."""
        return self.control_planes.take_snapshot().list_by_index(_CLUSTER, build_index_value(namespace, cluster))

    def list_deployments(self, namespace: str, cluster: str) -> list[CachedDeployment]:
        """Return the MachineDeployments of the cluster."""
        return self.deployments.take_snapshot().list_by_index(_CLUSTER, build_index_value(namespace, cluster))

    def list_requesting_pools(self, namespace: str, cluster: str, secrets: Collection[str]) -> list[CachedPool]:
        """Return the MachinePools whose configuration requests Transom's entries or names one of these Secrets."""
        configs = self.configs.take_snapshot()
        pools = []
        for pool in self.list_pools(namespace, cluster):
            config = configs.find_named(pool.config, namespace) if pool.config else None
            if config is not None and (config.requests_entries or not set(secrets).isdisjoint(config.secrets)):
                pools.append(pool)
        return pools

    def list_pools(self, namespace: str, cluster: str) -> list[CachedPool]:
        """Return the MachinePools of the cluster."""
        return self.pools.take_snapshot().list_by_index(_CLUSTER, build_index_value(namespace, cluster))

    def list_machines(self, namespace: str, cluster: str) -> list[CachedMachine]:
        """Return the Machines of the cluster."""
        return self.machines.take_snapshot().list_by_index(_CLUSTER, build_index_value(namespace, cluster))

    def list_template_clusters(self, template: CachedTemplate) -> frozenset[str]:
        """Return the clusters that use a template: it can be edited only if there is one."""
        namespace, name = template.metadata.namespace, template.metadata.name
        used = {
            item.spec.cluster_name
            for item in self.deployments.take_snapshot().list_by_index(_TEMPLATE, build_index_value(namespace, name))
        }
        own = template.metadata.cluster
        return frozenset(used | ({own} if own else set()))

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each Cluster whose answers may have changed."""

        def notify_template_clusters(name: ObjectKey, before: CachedTemplate | None, after: CachedTemplate | None) -> None:
            for template in filter(None, (before, after)):
                for cluster in self.list_template_clusters(template):
                    listener(ObjectKey(name.namespace or "", cluster))

        def on_control_plane_change(
            name: ObjectKey, before: CachedControlPlane | None, after: CachedControlPlane | None
        ) -> None:
            for item in filter(None, (before, after)):
                if cluster := item.metadata.cluster:
                    listener(ObjectKey(name.namespace or "", cluster))

        def on_config_change(name: ObjectKey, before: CachedConfig | None, after: CachedConfig | None) -> None:
            if (
                before is not None
                and after is not None
                and set(before.secrets) == set(after.secrets)
                and not (before.requests_entries or after.requests_entries)
            ):
                return
            for config in filter(None, (before, after)):
                if cluster := _get_cluster_name(config):
                    listener(ObjectKey(name.namespace or "", cluster))

        def on_deployment_change(
            name: ObjectKey, before: CachedDeployment | CachedPool | None, after: CachedDeployment | CachedPool | None
        ) -> None:
            for using in (before, after):
                if using is not None:
                    listener(ObjectKey(name.namespace or "", using.spec.cluster_name))

        def on_machine_change(name: ObjectKey, before: CachedMachine | None, after: CachedMachine | None) -> None:
            # that there are machines says what is outdated, where they are what is covered; what becomes of one does not
            same = before is not None and after is not None and before.kubelet_addresses == after.kubelet_addresses
            if not same and (machine := after or before) and machine.labels.cluster:
                listener(ObjectKey(name.namespace or "", machine.labels.cluster))

        self.templates.subscribe(notify_template_clusters)
        self.control_planes.subscribe(on_control_plane_change)
        self.configs.subscribe(on_config_change)
        self.deployments.subscribe(on_deployment_change)
        self.pools.subscribe(on_deployment_change)
        self.machines.subscribe(on_machine_change)


def _index_template_secrets(cached: CachedTemplate | CachedControlPlane) -> Iterator[str]:
    for name in list_secret_names(cached.configuration or {}):
        yield build_index_value(cached.metadata.namespace, name)


def _index_config_secrets(cached: CachedConfig) -> Iterator[str]:
    for name in cached.secrets:
        yield build_index_value(cached.metadata.namespace, name)


def _index_cluster(cached: CachedTemplate | CachedControlPlane) -> Iterator[str]:
    if cluster := cached.metadata.cluster:
        yield build_index_value(cached.metadata.namespace, cluster)


def _index_deployment_cluster(cached: CachedDeployment | CachedPool) -> Iterator[str]:
    yield build_index_value(cached.metadata.namespace, cached.spec.cluster_name)


def _index_template(cached: CachedDeployment) -> Iterator[str]:
    if cached.template:
        yield build_index_value(cached.metadata.namespace, cached.template)


def _index_machine_cluster(cached: CachedMachine) -> Iterator[str]:
    if cached.labels.cluster:
        yield build_index_value(cached.metadata.namespace, cached.labels.cluster)


def _get_cluster_name(config: CachedConfig) -> str | None:
    return (config.metadata.labels or {}).get(CLUSTER_NAME)
