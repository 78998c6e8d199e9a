"""A table of requests: who gets a certificate, and why nobody else does."""

import base64
import time
from collections.abc import Sequence

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from tests.windows.hostile_requests import HOSTILE_REQUESTS
from tests.windows.node_certificates import CLIENT_USAGES, SERVING_USAGES, pem

from transom.windows.nodes.node_certificates import (
    CLIENT,
    SERVING,
    ApprovalDecision,
    CertificateRequest,
    KnownNode,
    Member,
    ReservedIdentities,
    decide_approval,
)
from transom.windows.nodes.windows_instance import parse_ip_address

ONE = Member(
    "win-1", "win-1", "u-1", frozenset({"10.0.0.7"}), frozenset({"win-1", "win-1.corp.example"}), "system:bootstrap:aaaaaa"
)
TWO = Member("win-2", "win-2", "u-2", frozenset({"10.0.0.8"}), frozenset({"win-2"}), "system:bootstrap:bbbbbb")
BOOTSTRAPPER = "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"
SHARING = Member("win-4", "win-4", requestor=BOOTSTRAPPER, shared=True)
NOTHING = Member("win-5", "", requestor="system:bootstrap:eeeeee", refusal="the host cannot be Node linux-1: there is one")
MACHINE = Member("win-3", "win-3", others=True)
NODE_GROUPS = ("system:nodes", "system:authenticated")
TOKEN_GROUPS = ("system:bootstrappers", "system:bootstrappers:transom", "system:authenticated")


def client(body: bytes | None = None, username: str = "system:bootstrap:aaaaaa", **other: object) -> CertificateRequest:
    fields = {"groups": TOKEN_GROUPS, "usages": CLIENT_USAGES} | other
    return CertificateRequest(CLIENT, username, pem=body or pem(), **fields)  # type: ignore[arg-type]


def serving(body: bytes | None = None, username: str = "system:node:win-1", **other: object) -> CertificateRequest:
    fields = {"groups": NODE_GROUPS, "usages": SERVING_USAGES} | other
    return CertificateRequest(SERVING, username, pem=body or pem(sans=("win-1", "10.0.0.7")), **fields)  # type: ignore[arg-type]


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
def test_a_host_gets_its_own(request_: CertificateRequest) -> None:
    assert decide_approval(request_, (ONE, TWO, MACHINE), {}).verdict == "Approve"


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
def test_nobody_else_does_and_it_is_said(request_: CertificateRequest, said: str) -> None:
    found = decide_approval(request_, (ONE, TWO, MACHINE), {})
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
        CertificateRequest("kubernetes.io/kube-apiserver-client", "alice", (), CLIENT_USAGES, pem()),
        # a Linux node's wrong requests, with the token that every node of OpenShift has: nobody's alarm
        client(pem("system:node:linux-1"), BOOTSTRAPPER, groups=()),
        client(pem("system:node:linux-1", ("system:masters",)), BOOTSTRAPPER, groups=()),
        client(b"hunter2", BOOTSTRAPPER, groups=()),
        client(pem("linux-1"), BOOTSTRAPPER, groups=()),
        serving(pem("system:node:linux-1", sans=("10.0.0.7",)), "system:node:linux-1"),
    ],
)
def test_what_is_somebody_elses_is_left_alone(request_: CertificateRequest) -> None:
    assert decide_approval(request_, (ONE, TWO, MACHINE, SHARING), {}) == ApprovalDecision("Ignore")


def test_a_node_that_is_there() -> None:
    nodes = {"win-1": KnownNode(ready=True, uid="u-1")}
    assert decide_approval(client(), (ONE,), nodes).verdict == "Leave"
    assert decide_approval(serving(), (ONE,), nodes).verdict == "Approve"
    assert decide_approval(client(), (ONE,), {"win-1": KnownNode(ready=False, uid="u-1")}).verdict == "Approve"
    # made anew by somebody else, or there before the host was
    others = {"win-1": KnownNode(ready=False, uid="u-9")}
    for member in (ONE, msgspec.structs.replace(ONE, node_uid="")):
        for request_ in (client(), serving()):
            assert "is not that of WindowsInstance win-1" in decide_approval(request_, (member,), others).reason


def test_a_token_that_every_node_has() -> None:
    """It proves nothing of who asks: with it nobody takes the place of a Node that is there."""
    asked = client(pem("system:node:win-4"), BOOTSTRAPPER, groups=())
    assert decide_approval(asked, (ONE, SHARING), {}) == ApprovalDecision("Approve", SHARING)
    there = msgspec.structs.replace(SHARING, node_uid="u-4")
    assert "delete the Node" in decide_approval(asked, (there,), {"win-4": KnownNode(ready=False, uid="u-4")}).reason


def test_an_instance_that_cannot_be_the_node_that_it_says() -> None:
    for name in ("linux-1", "a b", "x/../../y", "system:node:x", "kubernetes.default.svc"):
        found = decide_approval(client(pem(f"system:node:{name}"), "system:bootstrap:eeeeee"), (ONE, NOTHING), {})
        assert found == ApprovalDecision("Leave", NOTHING, NOTHING.refusal)


@pytest.mark.parametrize(
    ("sans", "said"),
    [
        (("kubernetes",), "DNS name kubernetes is"),
        (("kubernetes.default.svc",), "DNS name kubernetes.default.svc is"),
        (("WEB.shop.svc.cluster.local",), "DNS name WEB.shop.svc.cluster.local is"),
        (("web",), "DNS name web is"),
        (("win-2",), "DNS name win-2 is"),
        (("api.corp.example",), "DNS name api.corp.example is"),
        (("10.96.0.1",), "address 10.96.0.1 is"),
        (("::ffff:10.96.0.1",), "address ::ffff"),
        (("10.0.0.2",), "address 10.0.0.2 is"),
        (("fd00::2",), "address fd00::2 is"),
    ],
)
def test_what_is_the_clusters_own_is_in_no_certificate(sans: Sequence[str], said: str) -> None:
    """Even where an object of the instance names it."""
    spelled = {parse_ip_address(san) or san.lower() for san in sans}
    member = msgspec.structs.replace(ONE, names=frozenset(spelled), addresses=frozenset(spelled))
    reserved = ReservedIdentities(
        frozenset({"kubernetes", "api.corp.example"}),
        frozenset({"win-2", "web"}),
        frozenset({"svc", "cluster.local"}),
        frozenset({"10.0.0.2", "fd00::2"}),
        ("10.96.0.0/16",),
    )
    asked = serving(pem(sans=sans))
    assert decide_approval(asked, (member,), {}).verdict == "Approve"
    assert decide_approval(asked, (member,), {}, reserved).reason.startswith(said)
    assert decide_approval(serving(), (ONE,), {}, reserved).verdict == "Approve"
    named = msgspec.structs.replace(ONE, node_name="kubernetes")
    assert "API server" in decide_approval(client(pem("system:node:kubernetes")), (named,), {}, reserved).reason


def test_two_instances_of_one_name_get_nothing() -> None:
    twin = Member("twin", "win-1", requestor="system:bootstrap:dddddd")
    assert "more than one" in decide_approval(client(), (ONE, twin), {}).reason


def test_a_request_that_was_tampered_with() -> None:
    body = bytearray(x509.load_pem_x509_csr(pem()).public_bytes(Encoding.DER))
    body[-1] ^= 1
    tampered = x509.load_der_x509_csr(bytes(body)).public_bytes(Encoding.PEM)
    assert "signature" in decide_approval(client(tampered), (ONE,), {}).reason


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("020100", "020127"),  # InvalidVersion: no version of PKCS #10
        ("06035504030c", "060355040303"),  # TypeError: a common name that is a string of bits
    ],
)
def test_a_request_that_cryptography_fails_on_in_its_own_way(was: str, becomes: str) -> None:
    made = x509.load_pem_x509_csr(pem()).public_bytes(Encoding.DER)
    assert made.count(bytes.fromhex(was)) == 1
    lines = base64.encodebytes(made.replace(bytes.fromhex(was), bytes.fromhex(becomes))).decode()
    asked = f"-----BEGIN CERTIFICATE REQUEST-----\n{lines}-----END CERTIFICATE REQUEST-----\n".encode()
    assert "no PKCS #10 request" in decide_approval(client(asked), (ONE,), {}).reason


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("FE80::1%12", "fe80::1"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("win-1", None),
        ("10.0.0.300", None),
    ],
)
def test_addresses_have_one_spelling(text: str, wanted: str | None) -> None:
    assert parse_ip_address(text) == wanted


@pytest.mark.parametrize("name", [name for name in HOSTILE_REQUESTS if not name.startswith("large-")])
def test_keys_that_no_kubelet_has_cost_nothing(name: str) -> None:
    request = serving(HOSTILE_REQUESTS[name]())
    seconds = []
    # the least of some: CPU time grows, too, beside other programs
    for _ in range(3):
        started = time.thread_time()
        judgement = decide_approval(request, (ONE,), {})
        seconds.append(time.thread_time() - started)
        assert judgement.verdict == "Leave"
    assert min(seconds) < 0.2


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_keys_of_kubelets_on_each_curve_are_taken(curve: ec.EllipticCurve) -> None:
    assert decide_approval(client(sign_request(ec.generate_private_key(curve))), (ONE,), {}).verdict == "Approve"


def test_rsa_and_ed25519_keys_are_taken() -> None:
    for key in (
        rsa.generate_private_key(65_537, 4096),
        rsa.generate_private_key(65_537, 2048),
        ed25519.Ed25519PrivateKey.generate(),
    ):
        assert decide_approval(client(sign_request(key)), (ONE,), {}).verdict == "Approve"


def test_a_curve_that_is_weak_and_a_short_key_are_left() -> None:
    for key in (ec.generate_private_key(ec.SECP192R1()), rsa.generate_private_key(65_537, 1024)):
        assert decide_approval(client(sign_request(key)), (ONE,), {}).verdict == "Leave"


def test_a_request_that_is_too_large_is_left_with_the_reason() -> None:
    judgement = decide_approval(msgspec.structs.replace(client(), pem=b"", is_too_large=True), (ONE,), {})
    assert (judgement.verdict, judgement.member) == ("Leave", ONE)
    assert "too large" in judgement.reason


def sign_request(key: CertificateIssuerPrivateKeyTypes) -> bytes:
    """Return what a kubelet of win-1 would ask with such a key."""
    names = ((NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, "system:node:win-1"))
    subject = x509.Name([x509.NameAttribute(oid, text) for oid, text in names])
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, algorithm).public_bytes(Encoding.PEM)
