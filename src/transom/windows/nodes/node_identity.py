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
_CLEAR: Final = "clear status.nodeName of the WindowsInstance to have it decided again"


class Record(msgspec.Struct, frozen=True):
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


class Holder(msgspec.Struct, frozen=True):
    """Another instance that has a name, how well (`rank`), and whether it is older."""

    instance: str
    rank: int
    older: bool = False


class Candidate(msgspec.Struct, frozen=True):
    """An instance whose Node is asked for.

    `named` is `spec.nodeName`; `machine` and `machine_uid` are of the `nodeRef` of its Machine. `said` is the name that the
    host gave itself in this pass, empty where it is not known. `addresses` are the one that SSH reached and `spec.nodeIP`.
    """

    joins: bool = False
    """Whether Transom makes it a node (`lifecycle: Node`)."""
    record: Record = Record()
    named: str = ""
    machine: str = ""
    machine_uid: str = ""
    said: str = ""
    addresses: frozenset[str] = frozenset()
    other_cluster: bool = False


class ClusterView(msgspec.Struct, frozen=True):
    """What the cluster has that concerns the instance.

    `nodes` are Nodes by the names in question, `near` those that hold one of its addresses. `holders` are the other instances
    that have a name, `owners` the other instances by the UID of the Node that each has recorded. `foreign` are names that are
    somebody's without a Node that is there now (the API server, a Machine, a Node that has gone), each with whose it is.
    """

    nodes: Mapping[str, SeenNode] = {}
    near: tuple[SeenNode, ...] = ()
    holders: Mapping[str, tuple[Holder, ...]] = {}
    owners: Mapping[str, str] = {}
    foreign: Mapping[str, str] = {}


class Identity(msgspec.Struct, frozen=True):
    """What was decided: the Node's name, known before the Node is there, and its UID where it is there and is the instance's.

    With `refusal` neither is given, and `message` says why.
    """

    name: str = ""
    uid: str = ""
    proof: Proof = ""
    refusal: Refusal = ""
    message: str = ""

    def record(self, before: Record) -> Record:
        """What is to be recorded: a UID stays while its Node is away, and a refusal changes nothing."""
        if self.refusal or not self.name:
            return before
        return Record(self.name, self.uid or (before.uid if before.name == self.name else ""), self.proof)


def rank(record: Record, *, named: bool) -> int:
    """How well an instance has a name: by a Node or a certificate, by a person's or a Machine's word, by its host's word."""
    return 3 if record.joined else 2 if named else 1 if record.name else 0


def decide(one: Candidate, around: ClusterView) -> Identity:
    """Which Node the instance has, or will have."""
    if one.other_cluster:
        return Identity(refusal="OtherCluster", message="its Node is another cluster's, which is not looked into")
    record = one.record if one.record.name else Record()
    if record.joined:
        return _changed(one, record, around) or _joined(one, record, around)
    if one.machine or one.named:
        return _given(one, one.machine or one.named, "Machine" if one.machine else "Spec", around)
    if record.name and one.said and one.said != record.name:
        return _other_name(one.said, "the host calls itself", record, around)
    if not one.joins:
        return _by_address(one, around)
    return _by_name(one, record, around)


def _changed(one: Candidate, record: Record, around: ClusterView) -> Identity | None:
    """Why a name that somebody gives is not taken: the instance has joined with another one."""
    for name, who in ((one.machine, "its Machine names"), (one.named, "spec.nodeName is")):
        if name:
            return _other_name(name, who, record, around) if name != record.name else None
    # a Node that was found by its address may be called otherwise than its host
    if one.said in ("", record.name) or (record.proof == "Address" and not _whose(one.said, around)):
        return None
    return _other_name(one.said, "the host calls itself", record, around)


def _other_name(name: str, who: str, record: Record, around: ClusterView) -> Identity:
    whose = _whose(name, around)
    said = f"{who} {_shown(name)}, and it is Node {record.name}"
    if whose:
        return Identity(refusal="NodeNameTaken", message=f"{said}; {whose}")
    return Identity(refusal="NodeNameChanged", message=f"{said}: {_CLEAR}")


def _joined(one: Candidate, record: Record, around: ClusterView) -> Identity:
    node = around.nodes.get(record.name)
    if node is not None and record.uid and node.uid == record.uid:
        return Identity(record.name, node.uid, record.proof)
    if (stronger := _holder(record.name, 3, around)) is not None:
        return _taken(record.name, stronger)
    if node is None:
        return Identity(record.name, "", record.proof)
    # a Node of that name, and not the one that was recorded: it was made again, or the first one by this certificate
    if (owner := around.owners.get(node.uid)) is not None:
        return _taken(record.name, f"Node {record.name} is that of WindowsInstance {owner}")
    if record.proof == "Spec" or (record.proof == "Machine" and one.machine == record.name):
        return _given(one, record.name, record.proof, around)
    if node.system != _WINDOWS:
        return _taken(record.name, _not_windows(node))
    if record.uid and not (node.addresses & one.addresses):
        return _taken(record.name, f"Node {record.name} was made again, and has none of this host's addresses")
    if record.proof != "Certificate" and (why := _contested(node, one, around)) is not None:
        return why
    return Identity(record.name, node.uid, record.proof)


def _given(one: Candidate, name: str, proof: Proof, around: ClusterView) -> Identity:
    """The Node that a person or a Machine names."""
    if (holder := _holder(name, 2, around)) is not None:
        return _taken(name, holder)
    node = around.nodes.get(name)
    if node is None:
        return Identity(name, "", proof)
    if (owner := around.owners.get(node.uid)) is not None:
        return _taken(name, f"Node {name} is that of WindowsInstance {owner}")
    if proof == "Machine" and one.machine_uid and node.uid != one.machine_uid:
        return _taken(name, f"Node {name} is not the one that the Machine names")
    if node.system not in ("", _WINDOWS):
        return _taken(name, _not_windows(node))
    return Identity(name, node.uid, proof)


def _by_address(one: Candidate, around: ClusterView) -> Identity:
    """The only Windows Node at the address."""
    near = [node for node in around.near if node.system == _WINDOWS]
    if not near:
        return Identity()
    if (why := _contested(near[0], one, around)) is not None:
        return why
    return Identity(near[0].name, near[0].uid, "Address")


def _by_name(one: Candidate, record: Record, around: ClusterView) -> Identity:
    """The name that the host gives itself: reserved for it where it is nobody's, and its Node where the address is, too."""
    adopted = [node for node in around.near if node.adopted and node.system == _WINDOWS]
    if adopted:
        return _contested(adopted[0], one, around) or Identity(adopted[0].name, adopted[0].uid, "Address")
    name = record.name or one.said
    if not name:
        return Identity()
    if not LABEL.fullmatch(name):
        message = f"the host calls itself {_shown(name)}; it must be one DNS label (letters, digits and `-`, at most 63)"
        return Identity(refusal="NodeNameInvalid", message=message)
    if (holder := _holder(name, 1 if record.name else 0, around)) is not None:
        return _taken(name, holder)
    node = around.nodes.get(name)
    if node is None:
        whose = around.foreign.get(name)
        return _taken(name, whose) if whose else Identity(name, "", "Name")
    if (owner := around.owners.get(node.uid)) is not None:
        return _taken(name, f"Node {name} is that of WindowsInstance {owner}")
    if node.system != _WINDOWS:
        return _taken(name, _not_windows(node))
    if not node.addresses & one.addresses:
        listed = ", ".join(sorted(one.addresses)) or "which is not known yet"
        return _taken(name, f"Node {name} is there, and does not have the address of this host ({listed})")
    return _contested(node, one, around) or Identity(name, node.uid, "Address")


def _contested(node: SeenNode, one: Candidate, around: ClusterView) -> Identity | None:
    """Why a Node at the address is not the instance's."""
    near = sorted(other.name for other in around.near if other.system == _WINDOWS)
    if len(near) > 1:
        listed, where = ", ".join(near), ", ".join(sorted(one.addresses))
        message = f"Nodes {listed} have the address of this host ({where}): set spec.nodeName to the one that it is"
        return Identity(refusal="NodeAddressAmbiguous", message=message)
    if (owner := around.owners.get(node.uid)) is not None:
        return _taken(node.name, f"Node {node.name} is that of WindowsInstance {owner}")
    if node.claimed:
        why = f"Node {node.name} says that it is WindowsInstance {node.claimed}'s (annotation transom.dev/instance)"
        return _taken(node.name, f"{why}: set spec.nodeName where that is wrong")
    if (holder := _holder(node.name, rank(one.record, named=False), around)) is not None:
        return _taken(node.name, holder)
    return None


def _whose(name: str, around: ClusterView) -> str:
    """Whose another name is, as a sentence; empty where it is nobody's."""
    if name in around.nodes:
        return f"there is a Node {name}, which is not this host's"
    return _holder(name, 0, around) or around.foreign.get(name, "")


def _holder(name: str, own: int, around: ClusterView) -> str | None:
    """Who has a name better than with rank `own`. Two that were given one name by people both do not have it."""
    for other in around.holders.get(name, ()):
        if other.rank > own or (other.rank == own and (own == 2 or other.older)):
            return f"WindowsInstance {other.instance} has this name"
    return None


def _taken(name: str, why: str) -> Identity:
    return Identity(refusal="NodeNameTaken", message=f"the host cannot be Node {_shown(name)}: {why}")


def _not_windows(node: SeenNode) -> str:
    system = f"says that it runs {_shown(node.system)}" if node.system else "has not said that it runs Windows"
    return f"Node {node.name} {system}"


def _shown(text: str) -> str:
    return text if text.isprintable() and len(text) <= 253 else "(not printable)"
