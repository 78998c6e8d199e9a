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
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID, PublicKeyAlgorithmOID

from transom.windows.nodes.windows_instance import BOOTSTRAPPERS, CLIENT, SERVING, parse_ip_address

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


_KEYS: Final = (
    PublicKeyAlgorithmOID.RSAES_PKCS1_v1_5,
    PublicKeyAlgorithmOID.EC_PUBLIC_KEY,
    PublicKeyAlgorithmOID.ED25519,
)
_CURVES: Final = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_MIN_RSA: Final = 2048
_MAX_RSA: Final = 4096


class CertificateRequest(msgspec.Struct, frozen=True):
    """A CertificateSigningRequest: who asks (`username`, `groups`), what for, and the PKCS #10 request as PEM.

    `is_too_large` says that the request is not here because it is longer than a kubelet's can be.
    """

    signer: str
    username: str
    groups: tuple[str, ...]
    usages: tuple[str, ...]
    pem: bytes
    is_too_large: bool = False


class Member(msgspec.Struct, frozen=True):
    """A host that Transom joins: the one name and the addresses that its certificates may have.

    `requestor` is the user name of its bootstrap token, None where it has none now; `shared` says that others have that token,
    too. `node_uid` is that of its Node, if it exists. `others` says that another approver sees to its requests
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


class ReservedIdentities(msgspec.Struct, frozen=True):
    """What no host's certificate may name: the API server, Services, other Nodes.

    `server_names` are the API server's, `domains` those of Services (`svc`, `cluster.local`); `addresses` are in one spelling,
    `networks` CIDRs of Services.
    """

    server_names: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    networks: tuple[str, ...] = ()

    def has_name(self, text: str) -> bool:
        """Return True if a DNS name is reserved, or is below one of the reserved domains."""
        spelled = text.lower().removesuffix(".")
        below = any(spelled == domain or spelled.endswith(f".{domain}") for domain in self.domains)
        return below or spelled in self.names or spelled in self.server_names

    def has_address(self, text: str) -> bool:
        """Return True if an IP address is reserved, or is in one of the reserved networks."""
        ip_address = ipaddress.ip_address(text)
        return text in self.addresses or any(
            ip_address in ipaddress.ip_network(network, strict=False) for network in self.networks
        )


_NOTHING: Final = ReservedIdentities()
_ADD_ADDRESS: Final = (
    "if it is the host's own, add it to spec.addresses, or to the line `addresses=` of its entry in windows-instances"
)


class ApprovalDecision(msgspec.Struct, frozen=True):
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
"""The exceptions of cryptography for a malformed request."""


def decide_approval(
    request: CertificateRequest,
    members: Collection[Member],
    nodes: Mapping[str, KnownNode],
    reserved: ReservedIdentities = _NOTHING,
) -> ApprovalDecision:
    """Decide whether to approve, deny or ignore a request. `nodes` are the cluster's Nodes by name."""
    if request.signer not in _USAGES:
        return ApprovalDecision("Ignore")
    try:
        signing_request = _parse_request(request)
        name = _read_node_name(signing_request)
    except _Refused as refused:
        member = _find_requestor(request, members)
        concerned = member is not None or BOOTSTRAPPERS in request.groups
        return ApprovalDecision("Leave", member, str(refused)) if concerned else ApprovalDecision("Ignore")
    named = [member for member in members if member.node_name == name]
    if any(member.others for member in named):
        return ApprovalDecision("Ignore")
    asking = _find_requestor(request, members)
    if request.signer == CLIENT and asking is None and request.username == _NODE + name:
        # the renewal of a certificate is kube-controller-manager's
        return ApprovalDecision("Ignore")
    if not named and asking is None and BOOTSTRAPPERS not in request.groups:
        return ApprovalDecision("Ignore")
    member = asking or (named[0] if named else None)
    try:
        if len(named) > 1:
            listed = ", ".join(sorted(item.instance for item in named))
            raise _Refused(f"more than one WindowsInstance is node {name}: {listed}")
        _require_approvable(request, signing_request, name, asking, nodes.get(name), reserved)
    except _Refused as refused:
        return ApprovalDecision("Leave", member, str(refused))
    return ApprovalDecision("Approve", member)


def parse_requested_node(request: CertificateRequest) -> str | None:
    """Return the name of the node that a request is for; None if it cannot be parsed."""
    try:
        return _read_node_name(_parse_request(request))
    except _Refused:
        return None


def _find_requestor(request: CertificateRequest, members: Collection[Member]) -> Member | None:
    """Whose request it is, by who sent it; with a token that every node has, by the name in it."""
    if request.signer == CLIENT:
        matches = [member for member in members if member.requestor is not None and member.requestor == request.username]
        name = parse_requested_node(request)
        return next((item for item in matches if not item.shared or (name and item.node_name == name)), None)
    return next((member for member in members if request.username == _NODE + member.node_name), None)


def _require_approvable(
    request: CertificateRequest,
    signing_request: _Pkcs10,
    name: str,
    member: Member | None,
    node: KnownNode | None,
    reserved: ReservedIdentities,
) -> None:
    if member is None:
        raise _Refused(f"{request.username} may not ask for node {name}")
    if member.refusal:
        raise _Refused(member.refusal)
    if name != member.node_name:
        raise _Refused(f"it asks for node {name}, and {request.username} is node {member.node_name}")
    _examine_subject(signing_request)
    if frozenset(request.usages) not in _USAGES[request.signer]:
        raise _Refused(f"its usages are not those of a kubelet: {', '.join(request.usages)}")
    if not signing_request.is_signed:
        raise _Refused("its signature is not that of its key")
    if node is not None and node.uid != member.node_uid:
        raise _Refused(f"Node {name} exists, and is not that of WindowsInstance {member.instance}")
    if name in reserved.server_names:
        raise _Refused(f"{name} is a name of the API server's")
    if request.signer == CLIENT:
        _examine_client(signing_request, name, node, member)
    else:
        _examine_serving(request, signing_request, member, reserved)


def _examine_subject(signing_request: _Pkcs10) -> None:
    if signing_request.organizations != (NODES,) or signing_request.attributes != 2:
        raise _Refused(f"its subject must have the organization {NODES} and nothing else except the name")


def _examine_client(signing_request: _Pkcs10, name: str, node: KnownNode | None, member: Member) -> None:
    if signing_request.alternatives:
        raise _Refused("a client certificate has no subject alternative names")
    if node is not None and node.ready:
        raise _Refused(f"Node {name} is Ready: it has a certificate")
    if node is not None and member.shared:
        raise _Refused(f"Node {name} exists, and all nodes share the requesting token: to have it join again, delete the Node")


def _examine_serving(
    request: CertificateRequest, signing_request: _Pkcs10, member: Member, reserved: ReservedIdentities
) -> None:
    if NODES not in request.groups:
        raise _Refused(f"{request.username} is not in the group {NODES}")
    if not signing_request.alternatives:
        raise _Refused("a serving certificate needs subject alternative names")
    for alternative in signing_request.alternatives:
        match alternative:
            case x509.DNSName():
                if alternative.value.lower() not in member.names:
                    raise _Refused(
                        f"DNS name {_format_printable(alternative.value)} is not one of WindowsInstance "
                        f"{member.instance}: {_ADD_ADDRESS}"
                    )
                if reserved.has_name(alternative.value):
                    raise _Refused(
                        f"DNS name {_format_printable(alternative.value)} is the API server's, a Service's or another Node's"
                    )
            case x509.IPAddress():
                asked_for = parse_ip_address(str(alternative.value))
                if asked_for is None or asked_for not in member.addresses:
                    raise _Refused(
                        f"address {alternative.value} is not one of WindowsInstance {member.instance}: {_ADD_ADDRESS}"
                    )
                if reserved.has_address(asked_for):
                    raise _Refused(f"address {alternative.value} is the API server's, a Service's or another Node's")
            case _:
                raise _Refused("its subject alternative names may be DNS names and addresses alone")


def _parse_request(certificate_request: CertificateRequest) -> _Pkcs10:
    """All parts at once: cryptography decodes each with its first access, and each can fail differently."""
    if certificate_request.is_too_large:
        raise _Refused("its PKCS #10 request is too large")
    try:
        request = x509.load_pem_x509_csr(certificate_request.pem)
        _examine_key(request)
        subject = list(request.subject)
        return _Pkcs10(
            names=tuple(item.value for item in subject if item.oid == NameOID.COMMON_NAME),
            organizations=tuple(item.value for item in subject if item.oid == NameOID.ORGANIZATION_NAME),
            attributes=len(subject),
            alternatives=_read_alternative_names(request),
            is_signed=request.is_signature_valid,
        )
    except _UNREADABLE:
        raise _Refused("it holds no PKCS #10 request that can be read") from None


def _examine_key(request: x509.CertificateSigningRequest) -> None:
    """Check the kind of key before OpenSSL loads it: some kinds have large numbers that it tests for 20 s."""
    # the type stubs of cryptography 50 do not have this property
    if request.public_key_algorithm_oid not in _KEYS:  # type: ignore[attr-defined]
        raise _Refused("its key is neither RSA, ECDSA nor Ed25519")
    match request.public_key():
        case rsa.RSAPublicKey() as key if not _MIN_RSA <= key.key_size <= _MAX_RSA:
            raise _Refused(f"its RSA key has {key.key_size} bits: {_MIN_RSA} to {_MAX_RSA} are taken")
        case ec.EllipticCurvePublicKey() as key if not isinstance(key.curve, _CURVES):
            raise _Refused("its key is on another curve than P-256, P-384 and P-521")


def _read_alternative_names(request: x509.CertificateSigningRequest) -> tuple[x509.GeneralName, ...]:
    try:
        return tuple(request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return ()


def _read_node_name(signing_request: _Pkcs10) -> str:
    name = signing_request.names[0] if len(signing_request.names) == 1 else ""
    if not isinstance(name, str) or not name.startswith(_NODE) or name == _NODE:
        raise _Refused(f"its common name must be {_NODE} and the name of a node")
    return name.removeprefix(_NODE)


def _format_printable(text: str) -> str:
    return text if text.isprintable() and len(text) <= 253 else "(not printable)"
