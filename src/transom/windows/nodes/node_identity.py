"""Which Node is an instance's: decided once, from what no kubelet and no host writes, and kept on our own object.

What a Node or a host says of itself (system, addresses, annotations, the computer's name) can take a Node away from an instance
that has none recorded yet. It never gives one to an instance against what was recorded.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

Proof = Literal["", "Machine", "Certificate", "Spec", "Address", "Name"]
"""By what a Node was decided: the Machine's nodeRef, a certificate that Transom approved for this instance's own token,
`spec.nodeName`, or its address. `Name` is what the host calls itself: it is reserved, and no Node is the instance's yet."""
Refusal = Literal["", "NodeNameTaken", "NodeNameChanged", "NodeNameInvalid", "NodeAddressAmbiguous", "OtherCluster"]
LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""One DNS label (RFC 1123): what a computer's name is (Microsoft, "Naming conventions in Active Directory": no dots)."""
_WINDOWS: Final = "windows"
_CLEAR: Final = "`transom forget HOST --node` has it decided again"


class NodeRecord(msgspec.Struct, frozen=True):
    """What the status of an instance says: `status.nodeName`, `nodeUID`, `nodeProof`. Without a name there is none."""

    name: str = ""
    uid: str = ""
    proof: Proof = ""

    @property
    def joined(self) -> bool:
        """Whether it names a Node, or one that a certificate was approved for."""
        return bool(self.name) and (bool(self.uid) or self.proof == "Certificate")


class SeenNode(msgspec.Struct, frozen=True):
    """A Node of the cluster. All but name and UID is what its kubelet says.

    `system` is empty where it was not said; `addresses` are IPs in one spelling; `claimed` is `namespace/name` of its
    annotation where that names another instance.
    """

    name: str
    uid: str
    system: str = ""
    addresses: frozenset[str] = frozenset()
    claimed: str = ""
    adopted: bool = False
    """Whether a person gave it to Transom (`transom.dev/adopt`)."""


class NameHolder(msgspec.Struct, frozen=True):
    """Another instance that has a name, how well (`rank`), and whether it is older."""

    instance: str
    rank: int
    older: bool = False


class IdentityCandidate(msgspec.Struct, frozen=True):
    """An instance of which the Node is requested.

    `named` is `spec.nodeName`; `machine` and `machine_uid` are of the `nodeRef` of its Machine. `said` is the name that the
    host gave itself in this pass, empty where it is not known. `addresses` are the one that SSH reached and `spec.nodeIP`.
    """

    joins: bool = False
    """Whether Transom makes it a node (`lifecycle: Node`)."""
    record: NodeRecord = NodeRecord()
    named: str = ""
    machine: str = ""
    machine_uid: str = ""
    said: str = ""
    addresses: frozenset[str] = frozenset()
    other_cluster: bool = False


class ClusterView(msgspec.Struct, frozen=True):
    """The parts of the cluster that concern the instance.

    `nodes` are Nodes by the names in question, `near` those that have one of its addresses. `holders` are the other
    instances that have a name, `owners` the other instances by the UID of the Node that each has recorded. `foreign` are
    names in use without an existing Node (by the API server, a Machine, or a deleted Node), each with its owner.
    """

    nodes: Mapping[str, SeenNode] = {}
    near: tuple[SeenNode, ...] = ()
    holders: Mapping[str, tuple[NameHolder, ...]] = {}
    owners: Mapping[str, str] = {}
    foreign: Mapping[str, str] = {}


class Identity(msgspec.Struct, frozen=True):
    """The decision: the Node's name, known before the Node exists, and its UID if it exists and is the instance's.

    With `refusal` neither is given, and `message` says why.
    """

    name: str = ""
    uid: str = ""
    proof: Proof = ""
    refusal: Refusal = ""
    message: str = ""

    def build_record(self, before: NodeRecord) -> NodeRecord:
        """Return the record to store: a UID is kept while its Node is away, and a refusal changes nothing."""
        if self.refusal or not self.name:
            return before
        return NodeRecord(self.name, self.uid or (before.uid if before.name == self.name else ""), self.proof)


def rank_claim(record: NodeRecord, *, named: bool) -> int:
    """Rank a claim to a name: 3 by Node or certificate, 2 by a person or Machine, 1 by the host, 0 for none."""
    return 3 if record.joined else 2 if named else 1 if record.name else 0


def resolve_identity(candidate: IdentityCandidate, cluster_view: ClusterView) -> Identity:
    """Resolve which Node the instance has or will have."""
    if candidate.other_cluster:
        return Identity(refusal="OtherCluster", message="its Node is another cluster's, which is not looked into")
    record = candidate.record if candidate.record.name else NodeRecord()
    if record.joined:
        return _refuse_name_change(candidate, record, cluster_view) or _resolve_joined(candidate, record, cluster_view)
    if candidate.machine or candidate.named:
        return _resolve_assigned_name(
            candidate, candidate.machine or candidate.named, "Machine" if candidate.machine else "Spec", cluster_view
        )
    if record.name and candidate.said and candidate.said != record.name:
        return _refuse_other_name(candidate.said, "the host calls itself", record, cluster_view)
    if not candidate.joins:
        return _resolve_by_address(candidate, cluster_view)
    return _resolve_by_name(candidate, record, cluster_view)


def _refuse_name_change(candidate: IdentityCandidate, record: NodeRecord, cluster_view: ClusterView) -> Identity | None:
    """Refuse a name that differs from the Node with which the instance has joined; None if it does not differ."""
    for name, who in ((candidate.machine, "its Machine names"), (candidate.named, "spec.nodeName is")):
        if name:
            return _refuse_other_name(name, who, record, cluster_view) if name != record.name else None
    # a Node that was found by its address may be called otherwise than its host
    if candidate.said in ("", record.name) or (record.proof == "Address" and not _describe_owner(candidate.said, cluster_view)):
        return None
    return _refuse_other_name(candidate.said, "the host calls itself", record, cluster_view)


def _refuse_other_name(name: str, who: str, record: NodeRecord, cluster_view: ClusterView) -> Identity:
    whose = _describe_owner(name, cluster_view)
    message = f"{who} {_format_printable(name)}, and it is Node {record.name}"
    if whose:
        return Identity(refusal="NodeNameTaken", message=f"{message}; {whose}")
    return Identity(refusal="NodeNameChanged", message=f"{message}: {_CLEAR}")


def _resolve_joined(candidate: IdentityCandidate, record: NodeRecord, cluster_view: ClusterView) -> Identity:
    node = cluster_view.nodes.get(record.name)
    if node is not None and record.uid and node.uid == record.uid:
        return Identity(record.name, node.uid, record.proof)
    if (stronger := _describe_holder(record.name, 3, cluster_view)) is not None:
        return _refuse_taken_name(record.name, stronger)
    if node is None:
        return Identity(record.name, "", record.proof)
    # a Node of that name, and not the one that was recorded: it was made again, or the first one by this certificate
    if (owner := cluster_view.owners.get(node.uid)) is not None:
        return _refuse_taken_name(record.name, f"Node {record.name} is that of WindowsInstance {owner}")
    if record.proof == "Spec" or (record.proof == "Machine" and candidate.machine == record.name):
        return _resolve_assigned_name(candidate, record.name, record.proof, cluster_view)
    if node.system != _WINDOWS:
        return _refuse_taken_name(record.name, _format_system_mismatch(node))
    if record.uid and not (node.addresses & candidate.addresses):
        return _refuse_taken_name(record.name, f"Node {record.name} was made again, and has none of this host's addresses")
    if record.proof != "Certificate" and (why := _check_conflict(node, candidate, cluster_view)) is not None:
        return why
    return Identity(record.name, node.uid, record.proof)


def _resolve_assigned_name(candidate: IdentityCandidate, name: str, proof: Proof, cluster_view: ClusterView) -> Identity:
    """Resolve the Node that a person or a Machine names."""
    if (holder := _describe_holder(name, 2, cluster_view)) is not None:
        return _refuse_taken_name(name, holder)
    node = cluster_view.nodes.get(name)
    if node is None:
        return Identity(name, "", proof)
    if (owner := cluster_view.owners.get(node.uid)) is not None:
        return _refuse_taken_name(name, f"Node {name} is that of WindowsInstance {owner}")
    if proof == "Machine" and candidate.machine_uid and node.uid != candidate.machine_uid:
        return _refuse_taken_name(name, f"Node {name} is not the one that the Machine names")
    if node.system not in ("", _WINDOWS):
        return _refuse_taken_name(name, _format_system_mismatch(node))
    return Identity(name, node.uid, proof)


def _resolve_by_address(candidate: IdentityCandidate, cluster_view: ClusterView) -> Identity:
    """Resolve the only Windows Node with one of the host's addresses."""
    near = [node for node in cluster_view.near if node.system == _WINDOWS]
    if not near:
        return Identity()
    if (why := _check_conflict(near[0], candidate, cluster_view)) is not None:
        return why
    return Identity(near[0].name, near[0].uid, "Address")


def _resolve_by_name(candidate: IdentityCandidate, record: NodeRecord, cluster_view: ClusterView) -> Identity:
    """Resolve the name that the host reports: reserve it if it is free, use its Node if an address matches."""
    adopted = [node for node in cluster_view.near if node.adopted and node.system == _WINDOWS]
    if adopted:
        return _check_conflict(adopted[0], candidate, cluster_view) or Identity(adopted[0].name, adopted[0].uid, "Address")
    name = record.name or candidate.said
    if not name:
        return Identity()
    if not LABEL.fullmatch(name):
        message = (
            f"the host calls itself {_format_printable(name)}; it must be one DNS label (letters, digits and `-`, at most 63)"
        )
        return Identity(refusal="NodeNameInvalid", message=message)
    if (holder := _describe_holder(name, 1 if record.name else 0, cluster_view)) is not None:
        return _refuse_taken_name(name, holder)
    node = cluster_view.nodes.get(name)
    if node is None:
        whose = cluster_view.foreign.get(name)
        return _refuse_taken_name(name, whose) if whose else Identity(name, "", "Name")
    if (owner := cluster_view.owners.get(node.uid)) is not None:
        return _refuse_taken_name(name, f"Node {name} is that of WindowsInstance {owner}")
    if node.system != _WINDOWS:
        return _refuse_taken_name(name, _format_system_mismatch(node))
    if not node.addresses & candidate.addresses:
        listed = ", ".join(sorted(candidate.addresses)) or "which is not known yet"
        return _refuse_taken_name(name, f"Node {name} exists, and does not have the address of this host ({listed})")
    return _check_conflict(node, candidate, cluster_view) or Identity(name, node.uid, "Address")


def _check_conflict(node: SeenNode, candidate: IdentityCandidate, cluster_view: ClusterView) -> Identity | None:
    """Refuse a Node at the address that belongs to another instance; None without a conflict."""
    near = sorted(other.name for other in cluster_view.near if other.system == _WINDOWS)
    if len(near) > 1:
        listed, where = ", ".join(near), ", ".join(sorted(candidate.addresses))
        message = f"Nodes {listed} have the address of this host ({where}): set spec.nodeName to the one that it is"
        return Identity(refusal="NodeAddressAmbiguous", message=message)
    if (owner := cluster_view.owners.get(node.uid)) is not None:
        return _refuse_taken_name(node.name, f"Node {node.name} is that of WindowsInstance {owner}")
    if node.claimed:
        why = f"Node {node.name} says that it is WindowsInstance {node.claimed}'s (annotation transom.dev/instance)"
        return _refuse_taken_name(node.name, f"{why}: set spec.nodeName where that is wrong")
    if (holder := _describe_holder(node.name, rank_claim(candidate.record, named=False), cluster_view)) is not None:
        return _refuse_taken_name(node.name, holder)
    return None


def _describe_owner(name: str, cluster_view: ClusterView) -> str:
    """Describe the owner of another name as a sentence; empty if the name is free."""
    if name in cluster_view.nodes:
        return f"there is a Node {name}, which is not this host's"
    return _describe_holder(name, 0, cluster_view) or cluster_view.foreign.get(name, "")


def _describe_holder(name: str, own: int, cluster_view: ClusterView) -> str | None:
    """Describe the instance with a better claim than rank `own`, or None.

    Two instances that people gave the same name both lose it.
    """
    for other in cluster_view.holders.get(name, ()):
        if other.rank > own or (other.rank == own and (own == 2 or other.older)):
            return f"WindowsInstance {other.instance} has this name"
    return None


def _refuse_taken_name(name: str, why: str) -> Identity:
    return Identity(refusal="NodeNameTaken", message=f"the host cannot be Node {_format_printable(name)}: {why}")


def _format_system_mismatch(node: SeenNode) -> str:
    system = f"says that it runs {_format_printable(node.system)}" if node.system else "has not said that it runs Windows"
    return f"Node {node.name} {system}"


def _format_printable(text: str) -> str:
    return text if text.isprintable() and len(text) <= 253 else "(not printable)"
