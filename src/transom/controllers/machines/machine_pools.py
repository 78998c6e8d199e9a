"""MachinePools: one living KubeadmConfig is their configuration, and the infrastructure replaces their machines its own way.

An edit of it takes effect with the next rotation of the bootstrap token. CABPK then creates the data again (Cluster API
v1.14.2, bootstrap/kubeadm/reconcilers/kubeadmconfig, rotateMachinePoolBootstrapToken). Most providers roll the pool for it.
"""

import contextlib

from transom.controllers.machines.machine_objects import CONFIGS, CachedPool, CachedPoolConfig
from transom.controllers.machines.rollout import MachineGroup
from transom.controllers.machines.template_edits import ExaminedTemplate
from transom.controllers.machines.templates import ClusterApiStores
from transom.controllers.runtime.informers import Informers
from transom.kube.client import Client
from transom.kube.errors import NotFound
from transom.kube.resources import Resource


class MachinePools:
    """The MachinePools of clusters with the KubeadmConfigs that their machines boot with."""

    def __init__(self, informers: Informers, templates: ClusterApiStores) -> None:
        self._informers, self._templates = informers, templates

    async def list_configs(
        self, client: Client, namespace: str, cluster: str, secrets: tuple[str, ...]
    ) -> list[CachedPoolConfig]:
        """Return the current configurations that ask for Transom's entries or name its Secrets. Raises ApiError."""
        known = self._informers.get_served_resource(CONFIGS)
        if known is None:
            return []
        whole = Resource(known.group, known.version, known.kind, known.plural, known.namespaced, CachedPoolConfig)
        configs = []
        for pool in self._templates.list_requesting_pools(namespace, cluster, secrets):
            with contextlib.suppress(NotFound):
                configs.append(await client.get(whole, pool.config or "", namespace))
        return configs

    def find_pool(self, config: CachedPoolConfig, cluster: str) -> CachedPool | None:
        """Return the MachinePool of a configuration."""
        pools = self._templates.list_pools(config.metadata.namespace or "", cluster)
        return next((pool for pool in pools if pool.config == config.metadata.name), None)

    def can_edit(self, config: CachedPoolConfig, cluster: str) -> bool:
        """Return True if an edit rolls nothing because the pool has no Node yet. Later it is edited in its turn."""
        pool = self.find_pool(config, cluster)
        return pool is not None and not pool.has_nodes

    def build_group(self, examined: ExaminedTemplate, cluster: tuple[str, str], changed: str | None) -> MachineGroup | None:
        """Return the machines of a pool; None if the pool is gone. `changed` is when their boot data last changed."""
        config = examined.cached
        pool = self.find_pool(config, cluster[1]) if isinstance(config, CachedPoolConfig) else None
        if pool is None:
            return None
        edited = config.metadata.last_own_edit_time
        changed = max(filter(None, (changed, edited)), default=None)
        machines = [item for item in self._templates.list_machines(*cluster) if item.labels.pool == pool.metadata.name]
        born = [machine.metadata.creation_timestamp or "" for machine in machines]
        missing = bool(examined.edit.operations)
        outdated = len(born) if missing else sum(changed is not None and time < changed for time in born)
        to_edit = missing and not examined.taken_back and examined.kept is None and pool.has_nodes
        # after our edit the machines that are older are followed until they are gone
        followed = not missing and outdated > 0 and edited is not None and edited == changed
        status = pool.status
        return MachineGroup(
            "MachinePool",
            pool.metadata.name,
            len(born),
            outdated,
            pool.spec.replicas if pool.spec.replicas is not None else 1,
            (status.ready_replicas or 0) if status else 0,
            changed,
            edited if followed else None,
            edited if followed else None,
            max(born, default=None),
            to_edit,
            None if to_edit or followed else examined.kept or "MachinePool",
        )
