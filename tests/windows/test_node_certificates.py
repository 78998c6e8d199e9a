"""A table of requests: who gets a certificate, and why nobody else does."""

import ipaddress
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from transom.windows.node_certificates import CLIENT, SERVING, KnownNode, Member, Request, address, judge

_KEY = ec.generate_private_key(ec.SECP256R1())
ONE = Member("win-1", "win-1", frozenset({"10.0.0.7"}), frozenset({"win-1", "win-1.corp.example"}), "system:bootstrap:aaaaaa")
TWO = Member("win-2", "win-2", frozenset({"10.0.0.8"}), frozenset({"win-2"}), "system:bootstrap:bbbbbb")
MACHINE = Member("win-3", "win-3", others=True)
CLIENT_USAGES = ("digital signature", "client auth")
SERVING_USAGES = ("digital signature", "server auth")
NODE_GROUPS = ("system:nodes", "system:authenticated")
TOKEN_GROUPS = ("system:bootstrappers", "system:bootstrappers:transom", "system:authenticated")


def pem(
    name: str = "system:node:win-1", organizations: Sequence[str] = ("system:nodes",), sans: Sequence[str] = (), unit: str = ""
) -> bytes:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
    attributes += [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
    attributes += [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit)] if unit else []
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    if sans:
        builder = builder.add_extension(x509.SubjectAlternativeName([general(one) for one in sans]), critical=False)
    return builder.sign(_KEY, hashes.SHA256()).public_bytes(Encoding.PEM)


def general(text: str) -> x509.GeneralName:
    if text.startswith("uri:"):
        return x509.UniformResourceIdentifier(text)
    if "@" in text:
        return x509.RFC822Name(text)
    return x509.IPAddress(ipaddress.ip_address(text)) if address(text) else x509.DNSName(text)


def client(body: bytes | None = None, username: str = "system:bootstrap:aaaaaa", **other: object) -> Request:
    fields = {"groups": TOKEN_GROUPS, "usages": CLIENT_USAGES} | other
    return Request(CLIENT, username, pem=body or pem(), **fields)  # type: ignore[arg-type]


def serving(body: bytes | None = None, username: str = "system:node:win-1", **other: object) -> Request:
    fields = {"groups": NODE_GROUPS, "usages": SERVING_USAGES} | other
    return Request(SERVING, username, pem=body or pem(sans=("win-1", "10.0.0.7")), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "request_",
    [
        client(),
        client(usages=("key encipherment", *CLIENT_USAGES)),
        client(pem("system:node:win-2"), "system:bootstrap:bbbbbb"),
        serving(),
        serving(usages=("key encipherment", *SERVING_USAGES)),
        serving(pem(sans=("10.0.0.7",))),
        serving(pem(sans=("WIN-1", "win-1.corp.example"))),
    ],
)
def test_a_host_gets_its_own(request_: Request) -> None:
    assert judge(request_, (ONE, TWO, MACHINE), {}).verdict == "Approve"


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (client(pem("system:node:win-2")), "asks for node win-2"),
        (client(pem("system:node:nobody")), "asks for node nobody"),
        (client(pem("system:node:win")), "asks for node win,"),
        (client(pem("system:node:win-1.x")), "asks for node win-1.x"),
        (client(username="system:bootstrap:cccccc"), "may not ask for node win-1"),
        (client(pem("system:node:nobody"), username="system:bootstrap:cccccc"), "may not ask for node nobody"),
        (client(username="alice", groups=("system:authenticated",)), "alice may not ask"),
        (client(username="system:node:win-2", groups=NODE_GROUPS), "may not ask for node win-1"),
        (client(pem("win-1")), "common name"),
        (client(pem("system:node:")), "common name"),
        (client(pem("")), "common name"),
        (client(b"hunter2"), "PKCS #10"),
        (client(pem(organizations=())), "organization"),
        (client(pem(organizations=("system:nodes", "system:masters"))), "organization"),
        (client(pem(organizations=("system:masters",))), "organization"),
        (client(pem(unit="x")), "organization"),
        (client(pem(sans=("win-1",))), "no subject alternative names"),
        (client(usages=(*CLIENT_USAGES, "server auth")), "usages"),
        (client(usages=("client auth",)), "usages"),
        (client(usages=()), "usages"),
        (serving(pem(sans=("win-1", "10.0.0.8"))), "address 10.0.0.8"),
        (serving(pem(sans=("win-2",))), "DNS name win-2"),
        (serving(pem(sans=("kubernetes.default.svc",))), "DNS name kubernetes.default.svc"),
        (serving(pem(sans=("*.corp.example",))), "DNS name"),
        (serving(pem()), "needs subject alternative names"),
        (serving(pem(sans=("win-1", "root@win-1"))), "alone"),
        (serving(pem(sans=("win-1", "uri:x"))), "alone"),
        (serving(pem("system:node:win-2", sans=("win-2",))), "asks for node win-2"),
        (serving(username="system:node:win-2", body=pem(sans=("win-1",))), "asks for node win-1"),
        (serving(username="system:bootstrap:aaaaaa"), "may not ask"),
        (serving(username="alice"), "may not ask"),
        (serving(groups=("system:authenticated",)), "not in the group"),
        (serving(pem(organizations=("system:masters",), sans=("win-1",))), "organization"),
        (serving(usages=CLIENT_USAGES), "usages"),
    ],
)
def test_nobody_else_does_and_it_is_said(request_: Request, said: str) -> None:
    found = judge(request_, (ONE, TWO, MACHINE), {})
    assert found.verdict == "Leave"
    assert said in found.reason


@pytest.mark.parametrize(
    "request_",
    [
        client(pem("system:node:linux-1"), "system:bootstrap:cccccc", groups=("system:bootstrappers:kubeadm",)),
        client(username="system:node:win-1", groups=NODE_GROUPS),
        client(
            pem("system:node:win-3"), "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper", groups=()
        ),
        serving(pem("system:node:win-3", sans=("win-3",)), "system:node:win-3"),
        serving(pem("system:node:linux-1", sans=("linux-1",)), "system:node:linux-1"),
        Request("kubernetes.io/kube-apiserver-client", "alice", (), CLIENT_USAGES, pem()),
    ],
)
def test_what_is_somebody_elses_is_left_alone(request_: Request) -> None:
    assert judge(request_, (ONE, TWO, MACHINE), {}).verdict == "Ignore"


def test_a_node_that_is_there() -> None:
    nodes = {"win-1": KnownNode(ready=True, windows=True)}
    assert judge(client(), (ONE,), nodes).verdict == "Leave"
    assert judge(serving(), (ONE,), nodes).verdict == "Approve"
    assert judge(client(), (ONE,), {"win-1": KnownNode(ready=False, windows=True)}).verdict == "Approve"
    # a host that calls itself like a control plane node
    assert "no Windows node" in judge(client(), (ONE,), {"win-1": KnownNode(ready=False, windows=False)}).reason


def test_two_instances_of_one_name_get_nothing() -> None:
    twin = Member("twin", "win-1", requestor="system:bootstrap:dddddd")
    assert "more than one" in judge(client(), (ONE, twin), {}).reason


def test_a_request_that_was_tampered_with() -> None:
    body = bytearray(x509.load_pem_x509_csr(pem()).public_bytes(Encoding.DER))
    body[-1] ^= 1
    tampered = x509.load_der_x509_csr(bytes(body)).public_bytes(Encoding.PEM)
    assert "signature" in judge(client(tampered), (ONE,), {}).reason


@pytest.mark.parametrize(
    ("text", "wanted"), [("10.0.0.7", "10.0.0.7"), ("FE80::1%12", "fe80::1"), ("win-1", None), ("10.0.0.300", None)]
)
def test_addresses_have_one_spelling(text: str, wanted: str | None) -> None:
    assert address(text) == wanted
