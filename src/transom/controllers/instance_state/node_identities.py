"""Which Node is an instance's: everything that asks is answered here, from the stores, and what was decided is recorded.

The status of the instance holds the record. A separate field manager writes it, so that another write of the status
leaves it unchanged. It is written before any step that depends on it.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

import msgspec
import structlog

from transom.controllers.instance_state.instance_writes import apply_status
from transom.controllers.runtime.cached_objects import HOST_NAME, ORIGIN, SOURCE, CachedInstance, HostNode
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.current_settings import CurrentSettings
from transom.controllers.runtime.informers import MACHINES, CachedApiMachine, Informers, list_addresses
from transom.hosts.errors import HostError
from transom.kube.errors import NotFound
from transom.kube.objects import Metadata
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey, Store
from transom.windows.host.host_state import ObservedState
from transom.windows.nodes.node_identity import (
    ClusterView,
    Identity,
    IdentityCandidate,
    NameHolder,
    NodeRecord,
    Proof,
    SeenNode,
    rank_claim,
    resolve_identity,
)
from transom.windows.nodes.windows_instance import WindowsInstanceStatus, parse_ip_address

_log: Final = structlog.get_logger("transom.nodes")
MANAGER: Final = "transom-node"
"""The field manager of what is recorded here."""
_PROOFS: Final[dict[str, Proof]] = {
    "Machine": "Machine",
    "Certificate": "Certificate",
    "Spec": "Spec",
    "Address": "Address",
    "Name": "Name",
}
_MACHINE_NAMES: Final = Resource(MACHINES.group, MACHINES.version, MACHINES.kind, MACHINES.plural, True, Metadata)
_OWN_NAMES: Final = ("kubernetes", "localhost")
_DEPARTED: Final = 10_000


class NodeIdentities:
    """Asked by controllers of hosts, of certificates and of removals. One process writes, for it holds the lease."""

    def __init__(self, informers: Informers, settings: CurrentSettings, machines: Store[CachedApiMachine] | None) -> None:
        """Create the identities. `machines` are those of the Machine API if Transom may read them."""
        self._informers, self._settings, self._machines = informers, settings, machines
        self._written: dict[ObjectKey, CachedInstance] = {}
        self._departed: dict[str, None] = {}
        """Names of Nodes of another system that have gone: they may come back (autoscaled, replaced)."""
        self._lock = asyncio.Lock()
        informers.windows_instances.subscribe(self._on_instance_change)
        informers.nodes.subscribe(self._on_node_change)

    def get_newest(self, cached: CachedInstance) -> CachedInstance:
        """Return an instance with what was recorded since the store had it."""
        written = self._written.get(cached.key)
        return written if written is not None and _is_newer(written, cached) else cached

    def identify(self, cached: CachedInstance, *, reported_name: str = "", reached: str = "") -> Identity:
        """Return the Node of an instance. `reported_name` is what the host reports, `reached` the address of the connection."""
        cached = self.get_newest(cached)
        candidate = self._build_candidate(cached, reported_name, reached)
        return resolve_identity(candidate, self._build_cluster_view(cached, candidate))

    def get_node(self, identity: Identity) -> HostNode | None:
        """Return the Node of an identity in its current state."""
        node = self._informers.nodes.take_snapshot().find_named(identity.name) if identity.uid else None
        return node if node is not None and node.metadata.uid == identity.uid else None

    def iter_related_nodes(
        self, cached: CachedInstance, reported_name: str = "", reached: str = "", identity: Identity | None = None
    ) -> Iterator[HostNode]:
        """Nodes that may be an instance's: the recorded one alone, or what its names and addresses lead to.

        `identity` is what was decided a moment ago. Enough to leave a host alone for another operator's sake, and for nothing
        else.
        """
        cached = self.get_newest(cached)
        identity = identity if identity is not None else self.identify(cached, reported_name=reported_name, reached=reached)
        if (node := self.get_node(identity)) is not None:
            yield node
            return
        if identity.refusal == "OtherCluster" or _to_record(cached).joined:
            return
        snapshot = self._informers.nodes.take_snapshot()
        for name in (cached.spec_fields.get("nodeName"), cached.live.node_name, reported_name):
            if name and (node := snapshot.find_named(str(name).lower())) is not None:
                yield node
        for item in list_addresses(cached) | ({reached} if reached else set()):
            yield from snapshot.list_by_index("address", item)

    def iter_instances_named(self, name: str) -> Iterator[CachedInstance]:
        """Iterate over the instances that have a name or request it."""
        yield from self._informers.windows_instances.take_snapshot().list_by_index("node", name)
        yield from (written for written in self._written.values() if _to_record(written).name == name)

    async def resolve_and_record(
        self, cached: CachedInstance, leadership: Leadership, *, reported_name: str = "", reached: str = "", certified: str = ""
    ) -> tuple[Identity, CachedInstance]:
        """Decide on the Node and record a new decision. Return the identity and the instance after that.

        `certified` is a name for which the instance requests a certificate with its own token: a Node of that name belongs to
        it from then on. Raises ApiError, after which nothing may follow from the decision; NotFound if the instance is gone.
        """
        async with self._lock:
            cached = self.get_newest(cached)
            cached_now = self._informers.windows_instances.take_snapshot().find_named(
                cached.metadata.name, cached.metadata.namespace
            )
            if cached_now is None or cached_now.metadata.uid != cached.metadata.uid:
                # the server does not compare the uid when a status is written; a deleted host is not a host without a Node
                raise NotFound(404, "NotFound", f"WindowsInstance {cached.metadata.namespace}/{cached.metadata.name} is gone")
            identity = self.identify(cached, reported_name=reported_name, reached=reached)
            before = _to_record(cached)
            record = identity.build_record(before)
            if record.proof == "Name" and not before.name and await self._is_machine(record.name, leadership):
                why = f"the host cannot be Node {record.name}: it is the name of a Machine that is not this instance's"
                return Identity(refusal="NodeNameTaken", message=why), cached
            if certified and certified == record.name and not identity.refusal and record.proof != "Machine":
                record = NodeRecord(record.name, record.uid, "Certificate")
                identity = Identity(identity.name, identity.uid, "Certificate")
            texts = {"node_name": record.name, "node_uid": record.uid, "node_proof": record.proof}
            wanted = msgspec.structs.replace(cached.live, **texts, host_address=reached or cached.live.host_address)
            if wanted != cached.live:
                cached = await apply_status(cached, select_record_fields(wanted), leadership, manager=MANAGER)
                self._written[cached.key] = cached
            return identity, cached

    async def _is_machine(self, name: str, leadership: Leadership) -> bool:
        """Return True if a Machine of the cluster has the name that a host reports: its Node may be absent for now."""
        if self._machines is None:
            return False
        try:
            machines = await leadership.client.list_objects(_MACHINE_NAMES, fields=f"metadata.name={name}")
        except NotFound:
            return False
        return bool(machines.items)

    # --- what is known

    def _build_candidate(self, cached: CachedInstance, reported_name: str, reached: str) -> IdentityCandidate:
        joins = cached.spec_fields.get("lifecycle") == "Node"
        renamed = HOST_NAME in (cached.metadata.annotations or {})
        machine, machine_uid = self._get_machine_node(cached)
        return IdentityCandidate(
            joins=joins,
            record=_to_record(cached),
            named=str(cached.spec_fields.get("nodeName") or ""),
            machine=machine,
            machine_uid=machine_uid,
            said=reported_name.lower() if joins and not renamed else "",
            addresses=list_addresses(cached) | ({reached} if reached else set()),
            other_cluster=bool(cached.spec_fields.get("clusterRef")),
        )

    def _get_machine_node(self, cached: CachedInstance) -> tuple[str, str]:
        """Name and UID of the `nodeRef` of the Machine that an instance comes from."""
        for machine in self.list_machines(cached):
            status = machine.status if isinstance(machine.status, dict) else {}
            reference = status.get("nodeRef")
            if isinstance(reference, dict) and reference.get("name"):
                return str(reference["name"]), str(reference.get("uid") or "")
        return "", ""

    def list_machines(self, cached: CachedInstance) -> list[CachedApiMachine]:
        """Return the Machine of the Machine API that an instance comes from, as a list of one or none."""
        origin = (cached.metadata.annotations or {}).get(ORIGIN)
        if self._machines is None or not origin or (cached.metadata.labels or {}).get(SOURCE) != "Machine":
            return []
        return self._machines.take_snapshot().list_by_index("origin", origin)

    def _build_cluster_view(self, cached: CachedInstance, candidate: IdentityCandidate) -> ClusterView:
        nodes = self._informers.nodes.take_snapshot()
        own = f"{cached.metadata.namespace}/{cached.metadata.name}"
        names = {name for name in (candidate.record.name, candidate.named, candidate.machine, candidate.said) if name}
        named = {name: _build_seen_node(node, own) for name in names if (node := nodes.find_named(name)) is not None}
        near = {
            node.metadata.name: _build_seen_node(node, own)
            for text in candidate.addresses
            for node in nodes.list_by_index("address", text)
        }
        names |= {item.name for item in near.values()}
        uids = {node.uid for node in (*named.values(), *near.values())}
        return ClusterView(
            nodes=named,
            near=tuple(near.values()),
            holders={name: name_holders for name in names if (name_holders := tuple(self._iter_name_holders(cached, name)))},
            owners={uid: owner for uid in uids if (owner := self._find_owner(cached, uid))},
            foreign={name: why for name in names if (why := self._explain_reserved_name(name))},
        )

    def _iter_name_holders(self, cached: CachedInstance, name: str) -> Iterator[NameHolder]:
        keys = {item.key: self.get_newest(item) for item in self.iter_instances_named(name)}
        age = (cached.metadata.creation_timestamp or "", cached.metadata.name)
        for other in keys.values():
            if other.metadata.uid == cached.metadata.uid or other.spec_fields.get("clusterRef"):
                continue
            record, requested_names = (
                _to_record(other),
                (str(other.spec_fields.get("nodeName") or ""), self._get_machine_node(other)[0]),
            )
            ranks = [rank_claim(record, named=False)] if record.name == name else []
            ranks += [rank_claim(NodeRecord(), named=True)] if name in requested_names else []
            if ranks:
                older = (other.metadata.creation_timestamp or "", other.metadata.name) < age
                yield NameHolder(f"{other.metadata.namespace}/{other.metadata.name}", max(ranks), older)

    def _find_owner(self, cached: CachedInstance, uid: str) -> str:
        """Return the key of the other instance that recorded a Node; empty if none did."""
        snapshot = self._informers.windows_instances.take_snapshot()
        for other in (*map(self.get_newest, snapshot.list_by_index("node-uid", uid)), *self._written.values()):
            if other.metadata.uid != cached.metadata.uid and _to_record(other).uid == uid:
                return f"{other.metadata.namespace}/{other.metadata.name}"
        return ""

    def _explain_reserved_name(self, name: str) -> str:
        newest = self._settings.newest
        server = newest.networks.internal_api_host if newest is not None else None
        if name in _OWN_NAMES or name == server:
            return "it is a name of the API server's"
        return "a Node of this name ran another system, and may come back" if name in self._departed else ""

    # --- what changes

    def _on_instance_change(self, name: ObjectKey, _: CachedInstance | None, after: CachedInstance | None) -> None:
        written = self._written.get(name)
        if written is not None and (after is None or not _is_newer(written, after)):
            del self._written[name]

    def _on_node_change(self, name: ObjectKey, before: HostNode | None, after: HostNode | None) -> None:
        if after is not None:
            self._departed.pop(name.name, None)
        elif before is not None and before.system not in ("", "windows"):
            self._departed[name.name] = None
            while len(self._departed) > _DEPARTED:
                del self._departed[next(iter(self._departed))]


def _to_record(cached: CachedInstance) -> NodeRecord:
    live = cached.live
    return NodeRecord(live.node_name, live.node_uid, _PROOFS.get(live.node_proof, "")) if live.node_name else NodeRecord()


def _build_seen_node(node: HostNode, own_key: str) -> SeenNode:
    claimed = node.claimed_by if node.claimed_by != own_key else ""
    return SeenNode(node.metadata.name, node.metadata.uid or "", node.system, node.ips, claimed, node.is_adopted)


def _is_newer(written: CachedInstance, cached: CachedInstance) -> bool:
    """Return True if `written` is a later version of the same object (Kubernetes, "Resource versions": they are numbers)."""
    ours, theirs = written.metadata.resource_version or "", cached.metadata.resource_version or ""
    same = written.metadata.uid == cached.metadata.uid
    return same and ours.isdecimal() and theirs.isdecimal() and int(ours) > int(theirs)


def select_record_fields(status: WindowsInstanceStatus) -> WindowsInstanceStatus:
    """Return a status reduced to the fields that are recorded here."""
    return WindowsInstanceStatus(
        node_name=status.node_name,
        node_uid=status.node_uid,
        node_proof=status.node_proof,
        host_address=status.host_address,
    )


def without_record(status: WindowsInstanceStatus) -> WindowsInstanceStatus:
    """Return a status without the fields that are recorded here."""
    return msgspec.structs.replace(status, node_name="", node_uid="", node_proof="", host_address="")


class NodeNameTaken(HostError):
    """The name is that of another instance, or of a Node that is not this instance's."""


class NodeNameChanged(HostError):
    """The instance has joined under another name."""


class NodeNameInvalid(HostError):
    """The name that the host gives itself cannot be a Node's."""


class NodeNameUnknown(HostError):
    """The platform has a name for the host's Node, and did not say it."""


class NodeAddressAmbiguous(HostError):
    """Two Nodes have the address of the host."""


class NodeAddressUnknown(HostError):
    """The host's own address is neither the one that SSH reaches nor the one that a person gave."""


class NotRecorded(HostError):
    """Which Node the host is could not be written down: nothing may follow from it."""


_ERRORS: Final[dict[str, type[HostError]]] = {
    item.__name__: item for item in (NodeNameTaken, NodeNameChanged, NodeNameInvalid, NodeAddressAmbiguous)
}


def to_error(identity: Identity) -> HostError | None:
    """Return the error of a refused identity; None if it was not refused, or if another cluster has the Node."""
    made = _ERRORS.get(identity.refusal)
    return made(identity.message) if made is not None else None


def select_node_ip(state: ObservedState, configured: str | None) -> str:
    """Return the address that a host's kubelet registers: the configured one, or the one SSH reached. Raises
    NodeAddressUnknown.
    """
    wanted = parse_ip_address(configured) if configured else None
    if state.own_address and state.own_address not in (state.reached, wanted):
        reached = f"SSH reaches it by {state.reached}" + (f", spec.nodeIP is {wanted}" if wanted else "")
        raise NodeAddressUnknown(
            f"the host's own address is {state.own_address}, and {reached}: set spec.nodeIP to the one that its Node is to have"
        )
    return wanted or state.reached
