"""Which CertificateSigningRequests of kubelets are approved: those of hosts that Transom joins, and no others.

The rules are those of kube-controller-manager's approver (Kubernetes, `pkg/apis/certificates/helpers.go`), narrowed to the one
name and the addresses of the host that asks.
"""

import ipaddress
from collections.abc import Collection, Mapping
from typing import Final, Literal

import msgspec
from cryptography import x509
from cryptography.x509.oid import NameOID

from transom.windows.signers import BOOTSTRAPPERS, CLIENT, SERVING

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


class Request(msgspec.Struct, frozen=True):
    """A CertificateSigningRequest: who asks (`username`, `groups`), what for, and the PKCS #10 request as PEM."""

    signer: str
    username: str
    groups: tuple[str, ...]
    usages: tuple[str, ...]
    pem: bytes


class Member(msgspec.Struct, frozen=True):
    """A host that Transom joins: the one name and the addresses that its certificates may have.

    `requestor` is the user name of its bootstrap token, None where it has none now. `others` says that another approver sees to
    its requests (OpenShift's machine approver).
    """

    instance: str
    node_name: str
    addresses: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    requestor: str | None = None
    others: bool = False


class KnownNode(msgspec.Struct, frozen=True):
    """What the cluster has under a node's name."""

    ready: bool
    windows: bool


class Judgement(msgspec.Struct, frozen=True):
    """`Ignore` is a request that does not concern Transom; `Leave` one that does and must not be approved."""

    verdict: Literal["Approve", "Leave", "Ignore"]
    member: Member | None = None
    reason: str = ""


class _Refused(Exception):
    """Why a request is not approved; the text is for people."""


def judge(request: Request, members: Collection[Member], nodes: Mapping[str, KnownNode]) -> Judgement:
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
        _examine(request, asked, name, asking, nodes.get(name))
    except _Refused as refused:
        return Judgement("Leave", member, str(refused))
    return Judgement("Approve", member)


def requested_node(request: Request) -> str | None:
    """The name of the node that a request is for; None where it cannot be read."""
    try:
        return _node_name(_parsed(request.pem))
    except _Refused:
        return None


def _asking(request: Request, members: Collection[Member]) -> Member | None:
    """Whose request it is, by who sent it; of several with one token (OpenShift's) the one that it names."""
    if request.signer == CLIENT:
        found = [one for one in members if one.requestor is not None and one.requestor == request.username]
        return next((one for one in found if one.node_name == requested_node(request)), found[0] if found else None)
    return next((one for one in members if request.username == _NODE + one.node_name), None)


def _examine(
    request: Request, asked: x509.CertificateSigningRequest, name: str, member: Member | None, node: KnownNode | None
) -> None:
    if member is None:
        raise _Refused(f"{request.username} may not ask for node {name}")
    if name != member.node_name:
        raise _Refused(f"it asks for node {name}, and {request.username} is node {member.node_name}")
    _examine_subject(asked)
    if frozenset(request.usages) not in _USAGES[request.signer]:
        raise _Refused(f"its usages are not those of a kubelet: {', '.join(request.usages)}")
    if not asked.is_signature_valid:
        raise _Refused("its signature is not that of its key")
    if node is not None and not node.windows:
        raise _Refused(f"Node {name} is there, and is no Windows node")
    if request.signer == CLIENT:
        _examine_client(asked, name, node)
    else:
        _examine_serving(request, asked, member)


def _examine_subject(asked: x509.CertificateSigningRequest) -> None:
    organizations = [one.value for one in asked.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if organizations != [NODES] or len(list(asked.subject)) != 2:
        raise _Refused(f"its subject must have the organization {NODES} and nothing else beside the name")


def _examine_client(asked: x509.CertificateSigningRequest, name: str, node: KnownNode | None) -> None:
    if _alternatives(asked):
        raise _Refused("a client certificate has no subject alternative names")
    if node is not None and node.ready:
        raise _Refused(f"Node {name} is Ready: it has a certificate")


def _examine_serving(request: Request, asked: x509.CertificateSigningRequest, member: Member) -> None:
    if NODES not in request.groups:
        raise _Refused(f"{request.username} is not in the group {NODES}")
    alternatives = _alternatives(asked)
    if not alternatives:
        raise _Refused("a serving certificate needs subject alternative names")
    for one in alternatives:
        match one:
            case x509.DNSName():
                if one.value.lower() not in member.names:
                    raise _Refused(f"DNS name {_shown(one.value)} is not one of WindowsInstance {member.instance}")
            case x509.IPAddress():
                if str(one.value) not in member.addresses:
                    raise _Refused(f"address {one.value} is not one of WindowsInstance {member.instance}")
            case _:
                raise _Refused("its subject alternative names may be DNS names and addresses alone")


def _parsed(pem: bytes) -> x509.CertificateSigningRequest:
    try:
        return x509.load_pem_x509_csr(pem)
    except ValueError:
        raise _Refused("it holds no PKCS #10 request") from None


def _node_name(asked: x509.CertificateSigningRequest) -> str:
    try:
        names = [one.value for one in asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    except ValueError:
        raise _Refused("its subject cannot be read") from None
    if len(names) != 1 or not isinstance(names[0], str) or not names[0].startswith(_NODE) or names[0] == _NODE:
        raise _Refused(f"its common name must be {_NODE} and the name of a node")
    return names[0].removeprefix(_NODE)


def _alternatives(asked: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    try:
        found = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        raise _Refused("its extensions cannot be read") from None
    return list(found.value)


def _shown(text: str) -> str:
    return text if text.isprintable() and len(text) <= 253 else "(not printable)"


def address(text: str) -> str | None:
    """An IP address in the one spelling that is compared; None for what is none. Zones (`%eth0`) are no part of it."""
    try:
        return str(ipaddress.ip_address(text.partition("%")[0]))
    except ValueError:
        return None
