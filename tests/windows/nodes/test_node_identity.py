"""Which Node an instance has: a table of what is known, and what holds whatever a host or a kubelet says."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transom.windows.nodes.node_identity import (
    ClusterView,
    Identity,
    IdentityCandidate,
    NameHolder,
    NodeRecord,
    SeenNode,
    rank_claim,
    resolve_identity,
)

AT = frozenset({"10.0.0.7"})
OWN = SeenNode("win-1", "u-1", "windows", AT)
ANEW = msgspec.structs.replace(OWN, uid="u-2")
LINUX = SeenNode("linux-1", "u-9", "linux", frozenset({"10.0.0.1"}))
OTHERS = SeenNode("win-2", "u-8", "windows", frozenset({"10.0.0.8"}))
NOTREADY = SeenNode("win-3", "u-7", "windows", frozenset({"10.0.0.9"}))
JOINED = NodeRecord("win-1", "u-1", "Certificate")
NODE = IdentityCandidate(joins=True, addresses=AT)
EGRESS = IdentityCandidate(addresses=AT)


def view(*nodes: SeenNode, **known: object) -> ClusterView:
    """What a cluster with these Nodes looks like from `AT`."""
    near = tuple(node for node in nodes if node.addresses & AT)
    return ClusterView({node.name: node for node in nodes}, near, **known)  # type: ignore[arg-type]


def one(base: IdentityCandidate, **fields: object) -> IdentityCandidate:
    return msgspec.structs.replace(base, **fields)


EVIL = {"win-1": (NameHolder("t/evil", 1, older=True),)}


@pytest.mark.parametrize(
    ("candidate", "around", "wanted"),
    [
        # a host that nobody knows has the name that it gives itself, where it is nobody's
        (one(NODE, said="win-1"), view(), ("win-1", "", "Name")),
        (one(NODE, record=NodeRecord("win-1", "", "Name"), said="win-1"), view(), ("win-1", "", "Name")),
        (one(NODE, record=NodeRecord("win-1")), view(OWN), ("win-1", "u-1", "Address")),
        # the certificate that was approved for it; then its Node, whatever that says of itself
        (one(NODE, record=NodeRecord("win-1", "", "Certificate")), view(), ("win-1", "", "Certificate")),
        (one(NODE, record=NodeRecord("win-1", "", "Certificate"), said="win-1"), view(OWN), ("win-1", "u-1", "Certificate")),
        (
            one(NODE, record=JOINED, said="win-1"),
            view(SeenNode("win-1", "u-1", "linux", frozenset({"10.0.0.1"}), "t/win-2")),
            ("win-1", "u-1", "Certificate"),
        ),
        # its Node was deleted, and comes back
        (one(NODE, record=JOINED, said="win-1"), view(), ("win-1", "", "Certificate")),
        (one(NODE, record=JOINED, said="win-1"), view(ANEW), ("win-1", "u-2", "Certificate")),
        # a person's word, a Machine's
        (one(NODE, named="win-1", said="ec2amaz-1"), view(OWN), ("win-1", "u-1", "Spec")),
        (one(EGRESS, named="win-2"), view(OTHERS), ("win-2", "u-8", "Spec")),
        (one(NODE, named="x", machine="win-1", machine_uid="u-1"), view(OWN), ("win-1", "u-1", "Machine")),
        (one(NODE, named="win-1"), view(holders=EVIL), ("win-1", "", "Spec")),
        # by its address alone, where nobody joins it
        (EGRESS, view(OWN, OTHERS, LINUX), ("win-1", "u-1", "Address")),
        (EGRESS, view(SeenNode("l", "u-6", "linux", AT)), ("", "", "")),
        (EGRESS, view(OWN, SeenNode("l", "u-6", "linux", AT)), ("win-1", "u-1", "Address")),
        (one(EGRESS, record=NodeRecord("win-1", "u-1", "Address"), said="linux-1"), view(OWN), ("win-1", "u-1", "Address")),
        (one(EGRESS, record=NodeRecord("win-1", "u-1", "Address")), view(ANEW), ("win-1", "u-2", "Address")),
        # another operator's that was given to Transom
        (one(NODE, said="x"), view(msgspec.structs.replace(OWN, adopted=True)), ("win-1", "u-1", "Address")),
    ],
)
def test_what_is_an_instances(candidate: IdentityCandidate, around: ClusterView, wanted: tuple[str, str, str]) -> None:
    found = resolve_identity(candidate, around)
    assert (found.name, found.uid, found.proof, found.refusal) == (*wanted, ""), found.message


@pytest.mark.parametrize(
    ("candidate", "around", "refusal", "said"),
    [
        # a host that nobody knows says another Node's name
        (one(NODE, said="linux-1"), view(LINUX), "NodeNameTaken", "linux"),
        (one(NODE, said="win-2"), view(OTHERS), "NodeNameTaken", "address of this host (10.0.0.7)"),
        (one(NODE, said="win-3"), view(NOTREADY, owners={"u-7": "t/win-3"}), "NodeNameTaken", "WindowsInstance t/win-3"),
        (one(NODE, said="win-4"), view(holders={"win-4": (NameHolder("t/win-4", 2),)}), "NodeNameTaken", "t/win-4"),
        (one(NODE, said="win-1"), view(holders=EVIL), "NodeNameTaken", "t/evil"),
        (one(NODE, said="linux-2"), view(foreign={"linux-2": "a Node ran another system"}), "NodeNameTaken", "another system"),
        (one(NODE, said="win-9"), view(SeenNode("win-9", "u-3")), "NodeNameTaken", "has not said that it runs Windows"),
        (one(NODE, said="kubernetes.default.svc"), view(), "NodeNameInvalid", "one DNS label"),
        (one(NODE, said="a b"), view(), "NodeNameInvalid", "a b"),
        (one(NODE, said="x/../../y"), view(), "NodeNameInvalid", "label"),
        (one(NODE, said="system:node:x"), view(), "NodeNameInvalid", "label"),
        (one(NODE, said="\x1b[2J"), view(), "NodeNameInvalid", "(not printable)"),
        (one(NODE, said="a" * 64), view(), "NodeNameInvalid", "63"),
        (one(NODE, said="win-1\n"), view(), "NodeNameInvalid", "(not printable)"),
        # one that has joined, or has a name reserved
        (one(NODE, record=JOINED, said="linux-1"), view(OWN, LINUX), "NodeNameTaken", "there is a Node linux-1"),
        (one(NODE, record=JOINED, said="win-7"), view(OWN), "NodeNameChanged", "transom forget HOST --node"),
        (one(NODE, record=JOINED, named="win-7"), view(OWN), "NodeNameChanged", "spec.nodeName is win-7"),
        (one(NODE, record=JOINED, machine="win-7"), view(OWN), "NodeNameChanged", "its Machine names win-7"),
        (
            one(NODE, record=NodeRecord("win-1", "", "Name"), said="win-7"),
            view(),
            "NodeNameChanged",
            "transom forget HOST --node",
        ),
        (one(NODE, record=NodeRecord("win-1", "u-1", "Address"), said="linux-1"), view(OWN, LINUX), "NodeNameTaken", "linux-1"),
        # its Node was deleted, and somebody else makes one of its name
        (one(NODE, record=JOINED), view(msgspec.structs.replace(ANEW, system="linux")), "NodeNameTaken", "linux"),
        (one(NODE, record=JOINED), view(msgspec.structs.replace(LINUX, name="win-1")), "NodeNameTaken", "linux"),
        (one(NODE, record=JOINED), view(msgspec.structs.replace(OTHERS, name="win-1")), "NodeNameTaken", "made again"),
        (one(NODE, record=JOINED), view(ANEW, owners={"u-2": "t/b"}), "NodeNameTaken", "t/b"),
        (one(EGRESS, record=NodeRecord("win-1", "u-1", "Address")), view(ANEW, owners={"u-2": "t/b"}), "NodeNameTaken", "t/b"),
        # people and Machines err, too
        (one(NODE, named="linux-1"), view(LINUX), "NodeNameTaken", "linux"),
        (one(NODE, named="win-1"), view(holders={"win-1": (NameHolder("t/b", 2),)}), "NodeNameTaken", "t/b"),
        (one(NODE, named="win-1"), view(OWN, owners={"u-1": "t/b"}), "NodeNameTaken", "t/b"),
        (one(NODE, machine="win-1", machine_uid="u-1"), view(ANEW), "NodeNameTaken", "not the one that the Machine names"),
        # addresses
        (EGRESS, view(OWN, msgspec.structs.replace(OTHERS, addresses=AT)), "NodeAddressAmbiguous", "win-1, win-2"),
        (
            one(NODE, said="win-1"),
            view(OWN, msgspec.structs.replace(OTHERS, addresses=AT)),
            "NodeAddressAmbiguous",
            "spec.nodeName",
        ),
        (EGRESS, view(msgspec.structs.replace(OWN, claimed="t/b")), "NodeNameTaken", "annotation"),
        (EGRESS, view(OWN, owners={"u-1": "t/b"}), "NodeNameTaken", "t/b"),
        (EGRESS, view(OWN, holders={"win-1": (NameHolder("t/b", 2),)}), "NodeNameTaken", "t/b"),
        (one(EGRESS, other_cluster=True, named="win-1"), view(OWN), "OtherCluster", "another cluster"),
    ],
)
def test_what_is_not(candidate: IdentityCandidate, around: ClusterView, refusal: str, said: str) -> None:
    found = resolve_identity(candidate, around)
    assert found.refusal == refusal
    assert said in found.message
    assert (found.name, found.uid) == ("", "")
    # and what was recorded stays
    assert found.build_record(candidate.record) == candidate.record


def test_how_well_a_name_is_held() -> None:
    records = (NodeRecord(), NodeRecord("a", "", "Name"), NodeRecord("a", "", "Certificate"), NodeRecord("a", "u", "Address"))
    assert [rank_claim(record, named=False) for record in records] == [0, 1, 3, 3]
    assert rank_claim(NodeRecord(), named=True) == 2


_NAMES = st.sampled_from(["win-1", "win-2", "win-3", "linux-1"])
_ADDRESSES = st.frozensets(st.sampled_from(["10.0.0.7", "10.0.0.8", "10.0.0.1"]))
_NODES = st.builds(
    SeenNode,
    _NAMES,
    st.sampled_from(["u-1", "u-2", "u-8", "u-9"]),
    st.sampled_from(["", "windows", "linux"]),
    _ADDRESSES,
    st.sampled_from(["", "t/a", "t/b"]),
    st.booleans(),
)
_VIEWS = st.lists(_NODES, unique_by=(lambda node: node.name, lambda node: node.uid)).map(lambda nodes: view(*nodes))


@given(_VIEWS, _NAMES | st.text())
def test_a_recorded_node_is_nobody_elses_and_stays(around: ClusterView, said: str) -> None:
    """Whatever kubelets and hosts say: the recorded one, no Node, or a refusal; another UID only of the same name."""
    found = resolve_identity(one(NODE, record=JOINED, said=said), around)
    if found.uid:
        assert found.name == "win-1"
        there = around.nodes["win-1"]
        assert there.uid == "u-1" or (there.system == "windows" and there.addresses & AT)


@given(_VIEWS, _NAMES | st.text(), st.sampled_from([NODE, EGRESS]), st.sampled_from(["u-1", "u-2", "u-8", "u-9"]))
def test_what_another_has_recorded_is_never_given(around: ClusterView, said: str, base: IdentityCandidate, uid: str) -> None:
    taken = msgspec.structs.replace(around, owners={uid: "t/other"})
    for candidate in (
        one(base, said=said),
        one(base, named="win-2"),
        one(base, record=NodeRecord("win-1", "u-5", "Certificate")),
    ):
        assert resolve_identity(candidate, taken).uid != uid


# who calls its own Node adopted, and says nothing of its system, takes no other one's place
@example(view(SeenNode("win-2", "u-8", "windows", AT), SeenNode("win-3", "u-2", "", AT, adopted=True)), "")
@given(_VIEWS, st.text())
def test_a_hosts_word_gives_no_node(around: ClusterView, said: str) -> None:
    """One is decided by a name that a host gives itself only where a single Windows Node has the host's address."""
    found = resolve_identity(one(NODE, said=said), around)
    if found.uid:
        (node,) = [node for node in around.near if node.system == "windows"]
        assert found == Identity(node.name, node.uid, "Address")


@given(_VIEWS, _NAMES | st.text())
def test_deciding_again_changes_nothing(around: ClusterView, said: str) -> None:
    record = resolve_identity(one(NODE, said=said), around).build_record(NodeRecord())
    assert resolve_identity(one(NODE, said=said, record=record), around).build_record(record) == record
