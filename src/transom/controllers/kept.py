"""What is kept of the kinds that there are thousands of: no more than somebody reads."""

from typing import Any, Final

import msgspec

from transom.kube.objects import NodeAddress, ObjectMeta, Projected
from transom.kube.resources import NODES as WHOLE_NODES
from transom.kube.resources import WINDOWS_INSTANCES as WHOLE_INSTANCES
from transom.kube.resources import Resource

MANAGED_BY_WMCO: Final = "windowsmachineconfig.openshift.io/version"
ADOPT: Final = "transom.dev/adopt"


class NodeAnnotations(msgspec.Struct, frozen=True):
    """The annotations of a Node that say whose it is; others are not kept."""

    managed_by_wmco: str | None = msgspec.field(default=None, name=MANAGED_BY_WMCO)
    adopt: str | None = msgspec.field(default=None, name=ADOPT)


class NodeMeta(Projected, frozen=True):
    """`metadata` of a Node."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    annotations: NodeAnnotations | None = None


class NodeCondition(Projected, frozen=True):
    """A condition of a Node, without its times: they change with every heartbeat."""

    type: str = ""
    status: str = "Unknown"
    reason: str | None = None


class NodeState(Projected, frozen=True):
    """`status` of a Node."""

    addresses: list[NodeAddress] | None = None
    conditions: list[NodeCondition] | None = None


class HostNode(Projected, frozen=True):
    """A Node, as far as it concerns the host that it is."""

    metadata: NodeMeta = NodeMeta()
    status: NodeState | None = None

    @property
    def ready(self) -> NodeCondition | None:
        """Its condition Ready."""
        conditions = (self.status.conditions if self.status else None) or ()
        return next((one for one in conditions if one.type == "Ready"), None)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Names and IPs, in lower case."""
        listed = (self.status.addresses if self.status else None) or ()
        return tuple(one.address.casefold() for one in listed if one.address)

    @property
    def managed_by_other(self) -> bool:
        """Whether another operator has it, and nobody gave it to Transom."""
        held = self.metadata.annotations
        return held is not None and held.managed_by_wmco is not None and held.adopt != "true"


class HeldInstance(Projected, frozen=True):
    """A WindowsInstance without what the server notes of its fields (`managedFields`), which is most of it.

    `spec` and `status` are as they came: a reader with findings for what does not fit comes later.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: Any = None
    status: Any = None

    @property
    def value(self) -> dict[str, Any]:
        """The object in plain values."""
        metadata = msgspec.to_builtins(self.metadata)
        return {"apiVersion": INSTANCES.api_version, "kind": INSTANCES.kind, "metadata": metadata, "spec": self.spec}

    @property
    def fields(self) -> dict[str, Any]:
        """`spec`, empty where it is none."""
        return self.spec if isinstance(self.spec, dict) else {}

    @property
    def live(self) -> dict[str, Any]:
        """`status`, empty where there is none."""
        return self.status if isinstance(self.status, dict) else {}

    def reason(self, condition: str) -> str | None:
        """Why a condition is as it is; None where it is not there."""
        return next((one.get("reason") for one in self.live.get("conditions") or () if one.get("type") == condition), None)


NODES: Final = Resource(WHOLE_NODES.group, "v1", WHOLE_NODES.kind, WHOLE_NODES.plural, False, HostNode)
INSTANCES: Final = Resource(
    WHOLE_INSTANCES.group, WHOLE_INSTANCES.version, WHOLE_INSTANCES.kind, WHOLE_INSTANCES.plural, True, HeldInstance
)
