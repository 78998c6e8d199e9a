"""What is kept of the infrastructure objects of Clusters: what the settings' reader looks at, in plain values."""

from typing import Any, Final

from transom.kube.objects import ObjectMeta, Projected
from transom.kube.resources import Resource
from transom.kube.versions import PREFERRED
from transom.sources.infrastructure import KINDS


class _Status(Projected, frozen=True):
    network: Any = None


class CachedInfrastructure(Projected, frozen=True):
    """An AWSCluster, say: its spec, and the networks that its controller found."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: _Status | None = None

    def value(self, kind: str) -> dict[str, Any]:
        """The object in plain values, as the settings' reader takes it."""
        metadata = {"name": self.metadata.name, "namespace": self.metadata.namespace}
        network = self.status.network if self.status else None
        made = {"apiVersion": f"{KINDS[kind][0]}/v1", "kind": kind, "metadata": metadata}
        return made | {"spec": self.spec, "status": {"network": network}}


INFRASTRUCTURE: Final = tuple(
    Resource(group, PREFERRED, kind, plural, True, CachedInfrastructure) for kind, (group, plural) in KINDS.items()
)
