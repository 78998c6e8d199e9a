"""Which CertificateSigningRequests of kubelets are approved: those of hosts that Transom joins, and no others.

The rules are those of kube-controller-manager's approver (Kubernetes, `pkg/apis/certificates/helpers.go`), narrowed to the one
name and the addresses of the host that asks.
"""

import ipaddress
from collections.abc import Collection, Mapping
from typing import Final, Literal

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import NameOID

from transom.windows.nodes import BOOTSTRAPPERS, CLIENT, SERVING, address

NODES: Final = "system:nodes"
_NODE: Final = "system:node:"
_USAGES: Final = {
    CLIENT: (
        frozenset(("digital signature", "client auth")),
        frozenset(("digital signature", "key encipherment", "client auth")),
    ),
    SERVING: (
        frozenset(("digital signature", "server auth")),
        frozenset(("digital signature", "key encipherment", "server auth")),
    ),
}


class CertificateRequest(msgspec.Struct, frozen=True):
    """A CertificateSigningRequest: who asks (`username`, `groups`), what for, and the PKCS #10 request as PEM."""

    signer: str
    username: str
    groups: tuple[str, ...]
    usages: tuple[str, ...]
    pem: bytes


class Member(msgspec.Struct, frozen=True):
    """A host that Transom joins: the one name and the addresses that its certificates may have.

    `requestor` is the user name of its bootstrap token, None where it has none now; `shared` says that others have that token,
    too. `node_uid` is that of its Node, where it is there. `others` says that another approver sees to its requests
    (OpenShift's machine approver), `refusal` why it cannot be the node that it wants to be.
    """

    instance: str
    node_name: str
    node_uid: str = ""
    addresses: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    requestor: str | None = None
    shared: bool = False
    others: bool = False
    refusal: str = ""


class KnownNode(msgspec.Struct, frozen=True):
    """What the cluster has under a node's name."""

    ready: bool
    uid: str


class Reserved(msgspec.Struct, frozen=True):
    """What no host's certificate may name: the API server, Services, other Nodes.

    `server_names` are the API server's, `domains` those of Services (`svc`, `cluster.local`); `addresses` are in one spelling,
    `networks` CIDRs of Services.
    """

    server_names: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    networks: tuple[str, ...] = ()

    def name(self, text: str) -> bool:
        """Whether a DNS name is one of these, or below one of the domains."""
        spelled = text.lower().removesuffix(".")
        below = any(spelled == domain or spelled.endswith(f".{domain}") for domain in self.domains)
        return below or spelled in self.names or spelled in self.server_names

    def address(self, text: str) -> bool:
        """Whether an IP address is one of these, or in one of the networks."""
        found = ipaddress.ip_address(text)
        return text in self.addresses or any(found in ipaddress.ip_network(one, strict=False) for one in self.networks)


_NOTHING: Final = Reserved()


class Judgement(msgspec.Struct, frozen=True):
    """`Ignore` is a request that does not concern Transom; `Leave` one that does and must not be approved."""

    verdict: Literal["Approve", "Leave", "Ignore"]
    member: Member | None = None
    reason: str = ""


class _Pkcs10(msgspec.Struct, frozen=True):
    """What a PKCS #10 request asks for: values of its subject, how many it has, and whether its key has signed it."""

    names: tuple[str | bytes, ...]
    organizations: tuple[str | bytes, ...]
    attributes: int
    alternatives: tuple[x509.GeneralName, ...]
    is_signed: bool


class _Refused(Exception):
    """Why a request is not approved; the text is for people."""


_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What cryptography raises for a request that somebody made up."""


def judge(
    request: CertificateRequest, members: Collection[Member], nodes: Mapping[str, KnownNode], reserved: Reserved = _NOTHING
) -> Judgement:
    """What becomes of a request. `nodes` are the Nodes of the cluster by name."""
    if request.signer not in _USAGES:
        return Judgement("Ignore")
    try:
        asked = _parsed(request.pem)
        name = _node_name(asked)
    except _Refused as refused:
        member = _asking(request, members)
        concerned = member is not None or BOOTSTRAPPERS in request.groups
        return Judgement("Leave", member, str(refused)) if concerned else Judgement("Ignore")
    named = [member for member in members if member.node_name == name]
    if any(member.others for member in named):
        return Judgement("Ignore")
    asking = _asking(request, members)
    if request.signer == CLIENT and asking is None and request.username == _NODE + name:
        # the renewal of a certificate is kube-controller-manager's
        return Judgement("Ignore")
    if not named and asking is None and BOOTSTRAPPERS not in request.groups:
        return Judgement("Ignore")
    member = asking or (named[0] if named else None)
    try:
        if len(named) > 1:
            listed = ", ".join(sorted(one.instance for one in named))
            raise _Refused(f"more than one WindowsInstance is node {name}: {listed}")
        _examine(request, asked, name, asking, nodes.get(name), reserved)
    except _Refused as refused:
        return Judgement("Leave", member, str(refused))
    return Judgement("Approve", member)


def requested_node(request: CertificateRequest) -> str | None:
    """The name of the node that a request is for; None where it cannot be read."""
    try:
        return _node_name(_parsed(request.pem))
    except _Refused:
        return None


def _asking(request: CertificateRequest, members: Collection[Member]) -> Member | None:
    """Whose request it is, by who sent it; with a token that every node has, by the name in it."""
    if request.signer == CLIENT:
        found = [one for one in members if one.requestor is not None and one.requestor == request.username]
        name = requested_node(request)
        return next((one for one in found if not one.shared or (name and one.node_name == name)), None)
    return next((one for one in members if request.username == _NODE + one.node_name), None)


def _examine(
    request: CertificateRequest,
    asked: _Pkcs10,
    name: str,
    member: Member | None,
    node: KnownNode | None,
    reserved: Reserved,
) -> None:
    if member is None:
        raise _Refused(f"{request.username} may not ask for node {name}")
    if member.refusal:
        raise _Refused(member.refusal)
    if name != member.node_name:
        raise _Refused(f"it asks for node {name}, and {request.username} is node {member.node_name}")
    _examine_subject(asked)
    if frozenset(request.usages) not in _USAGES[request.signer]:
        raise _Refused(f"its usages are not those of a kubelet: {', '.join(request.usages)}")
    if not asked.is_signed:
        raise _Refused("its signature is not that of its key")
    if node is not None and node.uid != member.node_uid:
        raise _Refused(f"Node {name} is there, and is not that of WindowsInstance {member.instance}")
    if name in reserved.server_names:
        raise _Refused(f"{name} is a name of the API server's")
    if request.signer == CLIENT:
        _examine_client(asked, name, node, member)
    else:
        _examine_serving(request, asked, member, reserved)


def _examine_subject(asked: _Pkcs10) -> None:
    if asked.organizations != (NODES,) or asked.attributes != 2:
        raise _Refused(f"its subject must have the organization {NODES} and nothing else beside the name")


def _examine_client(asked: _Pkcs10, name: str, node: KnownNode | None, member: Member) -> None:
    if asked.alternatives:
        raise _Refused("a client certificate has no subject alternative names")
    if node is not None and node.ready:
        raise _Refused(f"Node {name} is Ready: it has a certificate")
    if node is not None and member.shared:
        raise _Refused(f"Node {name} is there, and every node has the token that asks: delete the Node to have it join again")


def _examine_serving(request: CertificateRequest, asked: _Pkcs10, member: Member, reserved: Reserved) -> None:
    if NODES not in request.groups:
        raise _Refused(f"{request.username} is not in the group {NODES}")
    if not asked.alternatives:
        raise _Refused("a serving certificate needs subject alternative names")
    for one in asked.alternatives:
        match one:
            case x509.DNSName():
                if one.value.lower() not in member.names:
                    raise _Refused(f"DNS name {_shown(one.value)} is not one of WindowsInstance {member.instance}")
                if reserved.name(one.value):
                    raise _Refused(f"DNS name {_shown(one.value)} is the API server's, a Service's or another Node's")
            case x509.IPAddress():
                asked_for = address(str(one.value))
                if asked_for is None or asked_for not in member.addresses:
                    raise _Refused(f"address {one.value} is not one of WindowsInstance {member.instance}")
                if reserved.address(asked_for):
                    raise _Refused(f"address {one.value} is the API server's, a Service's or another Node's")
            case _:
                raise _Refused("its subject alternative names may be DNS names and addresses alone")


def _parsed(pem: bytes) -> _Pkcs10:
    """All parts at once: cryptography decodes each when it is asked for, and each has its own ways to fail."""
    try:
        request = x509.load_pem_x509_csr(pem)
        subject = list(request.subject)
        return _Pkcs10(
            names=tuple(one.value for one in subject if one.oid == NameOID.COMMON_NAME),
            organizations=tuple(one.value for one in subject if one.oid == NameOID.ORGANIZATION_NAME),
            attributes=len(subject),
            alternatives=_alternatives(request),
            is_signed=request.is_signature_valid,
        )
    except _UNREADABLE:
        raise _Refused("it holds no PKCS #10 request that can be read") from None


def _alternatives(request: x509.CertificateSigningRequest) -> tuple[x509.GeneralName, ...]:
    try:
        return tuple(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return ()


def _node_name(asked: _Pkcs10) -> str:
    name = asked.names[0] if len(asked.names) == 1 else ""
    if not isinstance(name, str) or not name.startswith(_NODE) or name == _NODE:
        raise _Refused(f"its common name must be {_NODE} and the name of a node")
    return name.removeprefix(_NODE)


def _shown(text: str) -> str:
    return text if text.isprintable() and len(text) <= 253 else "(not printable)"
