"""Which Node is an instance's: everything that asks is answered here, from the stores, and what was decided is recorded.

The record stands in the status of the instance. A field manager of its own writes it, so that another write of the status
leaves it as it is. It is written before anything is done that follows from it.
"""

import asyncio
from collections.abc import Iterator
from typing import Final

import msgspec
import structlog

from transom.controllers.instance.writes import apply_status
from transom.controllers.runtime.cached import HOST_NAME, ORIGIN, SOURCE, CachedInstance, HostNode
from transom.controllers.runtime.controller import Leadership
from transom.controllers.runtime.informers import MACHINES, CachedApiMachine, Informers, addresses_of
from transom.controllers.runtime.settings import CurrentSettings
from transom.hosts.errors import HostError
from transom.kube import NotFound
from transom.kube.objects import Metadata
from transom.kube.resources import Resource
from transom.kube.store import ObjectKey, Store
from transom.windows.host import ObservedState
from transom.windows.nodes import WindowsInstanceStatus, address
from transom.windows.nodes.node_identity import Candidate, ClusterView, Holder, Identity, Proof, Record, SeenNode, decide, rank

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
        """`machines` are those of the Machine API where somebody may read them."""
        self._informers, self._settings, self._machines = informers, settings, machines
        self._written: dict[ObjectKey, CachedInstance] = {}
        self._departed: dict[str, None] = {}
        """Names of Nodes of another system that have gone: they may come back (autoscaled, replaced)."""
        self._lock = asyncio.Lock()
        informers.windows_instances.subscribe(self._instance_changed)
        informers.nodes.subscribe(self._node_changed)

    def newest(self, cached: CachedInstance) -> CachedInstance:
        """An instance with what was recorded since the store had it."""
        written = self._written.get(cached.key)
        return written if written is not None and _follows(written, cached) else cached

    def of(self, cached: CachedInstance, *, said: str = "", reached: str = "") -> Identity:
        """Which Node is an instance's. `said` is the name that its host gave itself, `reached` where the connection went to."""
        cached = self.newest(cached)
        candidate = self._candidate(cached, said, reached)
        return decide(candidate, self._surroundings(cached, candidate))

    def node(self, identity: Identity) -> HostNode | None:
        """The Node that was decided, as it is now."""
        node = self._informers.nodes.snapshot().named(identity.name) if identity.uid else None
        return node if node is not None and node.metadata.uid == identity.uid else None

    def related(
        self, cached: CachedInstance, said: str = "", reached: str = "", identity: Identity | None = None
    ) -> Iterator[HostNode]:
        """Nodes that may be an instance's: the recorded one alone, or what its names and addresses lead to.

        `identity` is what was decided a moment ago. Enough to leave a host alone for another operator's sake, and for nothing
        else.
        """
        cached = self.newest(cached)
        identity = identity if identity is not None else self.of(cached, said=said, reached=reached)
        if (node := self.node(identity)) is not None:
            yield node
            return
        if identity.refusal == "OtherCluster" or _record(cached).joined:
            return
        snapshot = self._informers.nodes.snapshot()
        for name in (cached.fields.get("nodeName"), cached.live.node_name, said):
            if name and (node := snapshot.named(str(name).lower())) is not None:
                yield node
        for one in addresses_of(cached) | ({reached} if reached else set()):
            yield from snapshot.by("address", one)

    def named(self, name: str) -> Iterator[CachedInstance]:
        """The instances that have a name, or ask for it."""
        yield from self._informers.windows_instances.snapshot().by("node", name)
        yield from (written for written in self._written.values() if _record(written).name == name)

    async def settle(
        self, cached: CachedInstance, leadership: Leadership, *, said: str = "", reached: str = "", certified: str = ""
    ) -> tuple[Identity, CachedInstance]:
        """Decide, and record what was decided where it is new; the instance as it is then.

        `certified` is a name for which the instance asks for a certificate with its own token: from here on a Node of that name
        is its. Raises ApiError: then nothing follows from what was decided; NotFound where the instance is gone by now.
        """
        async with self._lock:
            cached = self.newest(cached)
            there = self._informers.windows_instances.snapshot().named(cached.metadata.name, cached.metadata.namespace)
            if there is None or there.metadata.uid != cached.metadata.uid:
                # the server does not compare the uid where a status is written; a host of nobody's is no host without a Node
                raise NotFound(404, "NotFound", f"WindowsInstance {cached.metadata.namespace}/{cached.metadata.name} is gone")
            identity = self.of(cached, said=said, reached=reached)
            before = _record(cached)
            record = identity.record(before)
            if record.proof == "Name" and not before.name and await self._is_machine(record.name, leadership):
                why = f"the host cannot be Node {record.name}: it is the name of a Machine that is not this instance's"
                return Identity(refusal="NodeNameTaken", message=why), cached
            if certified and certified == record.name and not identity.refusal and record.proof != "Machine":
                record = Record(record.name, record.uid, "Certificate")
                identity = Identity(identity.name, identity.uid, "Certificate")
            texts = {"node_name": record.name, "node_uid": record.uid, "node_proof": record.proof}
            wanted = msgspec.structs.replace(cached.live, **texts, host_address=reached or cached.live.host_address)
            if wanted != cached.live:
                cached = await apply_status(cached, only_record(wanted), leadership, manager=MANAGER)
                self._written[cached.key] = cached
            return identity, cached

    async def _is_machine(self, name: str, leadership: Leadership) -> bool:
        """Whether a Machine of the cluster has a name that a host without one gives itself: its Node may be away for now."""
        if self._machines is None:
            return False
        try:
            found = await leadership.client.list_objects(_MACHINE_NAMES, fields=f"metadata.name={name}")
        except NotFound:
            return False
        return bool(found.items)

    # --- what is known

    def _candidate(self, cached: CachedInstance, said: str, reached: str) -> Candidate:
        joins = cached.fields.get("lifecycle") == "Node"
        renamed = HOST_NAME in (cached.metadata.annotations or {})
        machine, machine_uid = self._machine_node(cached)
        return Candidate(
            joins=joins,
            record=_record(cached),
            named=str(cached.fields.get("nodeName") or ""),
            machine=machine,
            machine_uid=machine_uid,
            said=said.lower() if joins and not renamed else "",
            addresses=addresses_of(cached) | ({reached} if reached else set()),
            other_cluster=bool(cached.fields.get("clusterRef")),
        )

    def _machine_node(self, cached: CachedInstance) -> tuple[str, str]:
        """Name and UID of the `nodeRef` of the Machine that an instance comes from."""
        for machine in self.machines_of(cached):
            status = machine.status if isinstance(machine.status, dict) else {}
            reference = status.get("nodeRef")
            if isinstance(reference, dict) and reference.get("name"):
                return str(reference["name"]), str(reference.get("uid") or "")
        return "", ""

    def machines_of(self, cached: CachedInstance) -> list[CachedApiMachine]:
        """The Machine of the Machine API that an instance comes from."""
        origin = (cached.metadata.annotations or {}).get(ORIGIN)
        if self._machines is None or not origin or (cached.metadata.labels or {}).get(SOURCE) != "Machine":
            return []
        return self._machines.snapshot().by("origin", origin)

    def _surroundings(self, cached: CachedInstance, one: Candidate) -> ClusterView:
        nodes = self._informers.nodes.snapshot()
        own = f"{cached.metadata.namespace}/{cached.metadata.name}"
        names = {name for name in (one.record.name, one.named, one.machine, one.said) if name}
        named = {name: _seen(node, own) for name in names if (node := nodes.named(name)) is not None}
        near = {node.metadata.name: _seen(node, own) for text in one.addresses for node in nodes.by("address", text)}
        names |= {one.name for one in near.values()}
        uids = {node.uid for node in (*named.values(), *near.values())}
        return ClusterView(
            nodes=named,
            near=tuple(near.values()),
            holders={name: found for name in names if (found := tuple(self._holders(cached, name)))},
            owners={uid: owner for uid in uids if (owner := self._owner(cached, uid))},
            foreign={name: why for name in names if (why := self._foreign(name))},
        )

    def _holders(self, cached: CachedInstance, name: str) -> Iterator[Holder]:
        keys = {one.key: self.newest(one) for one in self.named(name)}
        age = (cached.metadata.creation_timestamp or "", cached.metadata.name)
        for other in keys.values():
            if other.metadata.uid == cached.metadata.uid or other.fields.get("clusterRef"):
                continue
            record, given = _record(other), (str(other.fields.get("nodeName") or ""), self._machine_node(other)[0])
            ranks = [rank(record, named=False)] if record.name == name else []
            ranks += [rank(Record(), named=True)] if name in given else []
            if ranks:
                older = (other.metadata.creation_timestamp or "", other.metadata.name) < age
                yield Holder(f"{other.metadata.namespace}/{other.metadata.name}", max(ranks), older)

    def _owner(self, cached: CachedInstance, uid: str) -> str:
        """The other instance that has recorded a Node; empty where none has."""
        snapshot = self._informers.windows_instances.snapshot()
        for other in (*map(self.newest, snapshot.by("node-uid", uid)), *self._written.values()):
            if other.metadata.uid != cached.metadata.uid and _record(other).uid == uid:
                return f"{other.metadata.namespace}/{other.metadata.name}"
        return ""

    def _foreign(self, name: str) -> str:
        newest = self._settings.newest
        server = newest.networks.internal_api_host if newest is not None else None
        if name in _OWN_NAMES or name == server:
            return "it is a name of the API server's"
        return "a Node of this name ran another system, and may come back" if name in self._departed else ""

    # --- what changes

    def _instance_changed(self, name: ObjectKey, _: CachedInstance | None, after: CachedInstance | None) -> None:
        written = self._written.get(name)
        if written is not None and (after is None or not _follows(written, after)):
            del self._written[name]

    def _node_changed(self, name: ObjectKey, before: HostNode | None, after: HostNode | None) -> None:
        if after is not None:
            self._departed.pop(name.name, None)
        elif before is not None and before.system not in ("", "windows"):
            self._departed[name.name] = None
            while len(self._departed) > _DEPARTED:
                del self._departed[next(iter(self._departed))]


def _record(cached: CachedInstance) -> Record:
    live = cached.live
    return Record(live.node_name, live.node_uid, _PROOFS.get(live.node_proof, "")) if live.node_name else Record()


def _seen(node: HostNode, own: str) -> SeenNode:
    claimed = node.claimed_by if node.claimed_by != own else ""
    return SeenNode(node.metadata.name, node.metadata.uid or "", node.system, node.ips, claimed, node.adopted)


def _follows(written: CachedInstance, cached: CachedInstance) -> bool:
    """Whether what was written is a later version of the same object (Kubernetes, "Resource versions": they are numbers)."""
    ours, theirs = written.metadata.resource_version or "", cached.metadata.resource_version or ""
    same = written.metadata.uid == cached.metadata.uid
    return same and ours.isdecimal() and theirs.isdecimal() and int(ours) > int(theirs)


def only_record(status: WindowsInstanceStatus) -> WindowsInstanceStatus:
    """Of a status, what is recorded here."""
    return WindowsInstanceStatus(
        node_name=status.node_name,
        node_uid=status.node_uid,
        node_proof=status.node_proof,
        host_address=status.host_address,
    )


def without_record(status: WindowsInstanceStatus) -> WindowsInstanceStatus:
    """A status without what is recorded here."""
    return msgspec.structs.replace(status, node_name="", node_uid="", node_proof="", host_address="")


class NodeNameTaken(HostError):
    """The name is that of another instance, or of a Node that is not this instance's."""


class NodeNameChanged(HostError):
    """The instance has joined under another name."""


class NodeNameInvalid(HostError):
    """The name that the host gives itself cannot be a Node's."""


class NodeAddressAmbiguous(HostError):
    """Two Nodes have the address of the host."""


class NodeAddressUnknown(HostError):
    """The host's own address is neither the one that SSH reaches nor the one that a person gave."""


class NotRecorded(HostError):
    """Which Node the host is could not be written down: nothing may follow from it."""


_ERRORS: Final[dict[str, type[HostError]]] = {
    one.__name__: one for one in (NodeNameTaken, NodeNameChanged, NodeNameInvalid, NodeAddressAmbiguous)
}


def error_of(identity: Identity) -> HostError | None:
    """The refusal of an identity; None where there is none, or where another cluster has the Node."""
    made = _ERRORS.get(identity.refusal)
    return made(identity.message) if made is not None else None


def node_ip(state: ObservedState, given: str | None) -> str:
    """The address that a host's kubelet registers: the given one, else the one that SSH reached. Raises NodeAddressUnknown."""
    wanted = address(given) if given else None
    if state.own_address and state.own_address not in (state.reached, wanted):
        reached = f"SSH reaches it by {state.reached}" + (f", spec.nodeIP is {wanted}" if wanted else "")
        raise NodeAddressUnknown(
            f"the host's own address is {state.own_address}, and {reached}: set spec.nodeIP to the one that its Node is to have"
        )
    return wanted or state.reached
