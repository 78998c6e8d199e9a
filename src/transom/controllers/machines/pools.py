"""MachinePools: one living KubeadmConfig is their configuration, and the infrastructure replaces their machines its own way.

What an edit of it leads to comes with the next rotation of the bootstrap token. CABPK makes the data anew then (Cluster API
v1.14.2, bootstrap/kubeadm/reconcilers/kubeadmconfig, rotateMachinePoolBootstrapToken). Most providers roll the pool for it.
"""

import contextlib

from transom.controllers.machines import CONFIGS, CachedPool, CachedPoolConfig
from transom.controllers.machines.rollout import Group
from transom.controllers.machines.template_edits import ExaminedTemplates
from transom.controllers.machines.templates import MachineTemplates
from transom.controllers.runtime.informers import Informers
from transom.kube import NotFound
from transom.kube.client import Client
from transom.kube.resources import Resource


class MachinePools:
    """The MachinePools of clusters with the KubeadmConfigs that their machines boot with."""

    def __init__(self, informers: Informers, templates: MachineTemplates) -> None:
        self._informers, self._templates = informers, templates

    async def configs_of(
        self, client: Client, namespace: str, cluster: str, secrets: tuple[str, ...]
    ) -> list[CachedPoolConfig]:
        """The configurations that ask for our entries, or name our Secrets, as they are now. Raises ApiError."""
        known = self._informers.served(CONFIGS)
        if known is None:
            return []
        whole = Resource(known.group, known.version, known.kind, known.plural, known.namespaced, CachedPoolConfig)
        found = []
        for pool in self._templates.pools_of(namespace, cluster, secrets):
            with contextlib.suppress(NotFound):
                found.append(await client.get(whole, pool.config or "", namespace))
        return found

    def pool_of(self, config: CachedPoolConfig, cluster: str) -> CachedPool | None:
        """The MachinePool that a configuration is of."""
        pools = self._templates.all_pools_of(config.metadata.namespace or "", cluster)
        return next((pool for pool in pools if pool.config == config.metadata.name), None)

    def may_edit(self, config: CachedPoolConfig, cluster: str) -> bool:
        """Whether an edit rolls nothing: the pool has no Node yet. After that its turn comes, as a control plane's does."""
        pool = self.pool_of(config, cluster)
        return pool is not None and not pool.has_nodes

    def group(self, examined: ExaminedTemplates, found_in: tuple[str, str], changed: str | None) -> Group | None:
        """The machines of a pool; None where the pool is gone. `changed` is when what they boot with last changed."""
        config = examined.cached
        pool = self.pool_of(config, found_in[1]) if isinstance(config, CachedPoolConfig) else None
        if pool is None:
            return None
        edited = config.metadata.edited
        changed = max(filter(None, (changed, edited)), default=None)
        machines = [one for one in self._templates.machines_of(*found_in) if one.labels.pool == pool.metadata.name]
        born = [one.metadata.creation_timestamp or "" for one in machines]
        missing = bool(examined.edit.operations)
        outdated = len(born) if missing else sum(changed is not None and time < changed for time in born)
        to_edit = missing and not examined.taken_back and examined.kept is None and pool.has_nodes
        # after our edit the machines that are older are followed until they are gone
        followed = not missing and outdated > 0 and edited is not None and edited == changed
        status = pool.status
        return Group(
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
