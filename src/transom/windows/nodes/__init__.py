"""Windows instances as nodes of a cluster: `WindowsInstance.transom.dev/v1alpha1`, and what is wrong with its description.

Beside it, what all others here compare: an IP address in one spelling, and the names of Kubernetes for a kubelet's signers.
"""

import binascii
import ipaddress
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, Literal

import msgspec

from transom.proxy.finding import Finding, Path, Place
from transom.proxy.objects import Base, Meta, NameReference, SettingsObjects
from transom.proxy.secret import Secret
from transom.proxy.status import Status
from transom.shown import NAME

Lifecycle = Literal["Egress", "Node"]
KEY: Final = "private-key.pem"
PREVIOUS: Final = "private-key.previous.pem"
_LABEL = r"[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?"
_DNS_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\.?\Z")
_LENGTH, _ED25519 = 4, 32
"""Bytes of the length of a field, and of an Ed25519 key (RFC 4251, section 5; RFC 8709, section 4)."""
_OPENSSH: Final = b"openssh-key-v1\0"
_KEY_TYPES: Final = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
_LONGEST: Final = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
"""Characters of an IP address."""
_KNOWN: Final = 8192
CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING: Final = "kubernetes.io/kubelet-serving"
BOOTSTRAPPERS: Final = "system:bootstrappers:transom"
"""Who signs the certificates of kubelets, and the group of those who may ask for their first one: names of Kubernetes
(kubernetes.io, "Certificates and Certificate Signing Requests")."""


class ClusterReference(Base, frozen=True):
    """A Cluster API `Cluster` in the same API; without namespace, in the instance's own."""

    name: str = ""
    namespace: str | None = None


class WindowsInstanceSpec(Base, frozen=True):
    """How the host is reached, and what Transom is to it."""

    address: str = ""
    port: int = 22
    username: str = ""
    key_secret: NameReference = NameReference("cloud-private-key")
    node_name: str | None = None
    node_ip: str | None = msgspec.field(default=None, name="nodeIP")
    host_key: str | None = None
    paused: bool = False
    cluster_ref: ClusterReference | None = None
    lifecycle: Lifecycle = "Egress"


class WindowsInstanceStatus(Status, frozen=True):
    """`status` of the object: an empty text is a field that is not there."""

    node_name: str = ""
    node_uid: str = msgspec.field(default="", name="nodeUID")
    node_proof: str = ""
    host_address: str = ""
    host_key_fingerprint: str = ""
    key_hash: str = ""
    os_version: str = ""
    payload_version: str = ""
    state_hash: str = ""
    settings: str = ""
    changes: str = ""
    last_checked: str = ""


class WindowsInstance(Base, frozen=True):
    """The object: `metadata.name` and `metadata.namespace` are always set."""

    metadata: Meta
    place: Place
    spec: WindowsInstanceSpec = WindowsInstanceSpec()

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name

    @property
    def cluster(self) -> tuple[str, str] | None:
        """Namespace and name of the `Cluster` whose settings hold, None for the cluster that the objects describe."""
        reference = self.spec.cluster_ref
        return (reference.namespace or self.metadata.namespace or "", reference.name) if reference else None


def private_key(instance: WindowsInstance, objects: SettingsObjects) -> Secret | None:
    """The text of the key that opens the host, from a Secret in Transom's namespace; None where Secret or key is missing."""
    secret = objects.secret(objects.namespace, instance.spec.key_secret.name)
    return secret.data.get(KEY) if secret else None


def earlier_keys(instance: WindowsInstance, objects: SettingsObjects) -> tuple[Secret, ...]:
    """The key before the one that opens the host, where its Secret has it: a host that takes it yet is moved to the new one."""
    secret = objects.secret(objects.namespace, instance.spec.key_secret.name)
    found = secret.data.get(PREVIOUS) if secret else None
    return (found,) if found is not None else ()


def examine(instances: Iterable[WindowsInstance], objects: SettingsObjects) -> Iterator[Finding]:
    """Everything that is wrong with the instances."""
    seen: dict[tuple[str, int], str] = {}
    for instance in instances:
        yield from _examine(instance, objects)
        target = (instance.spec.address.casefold(), instance.spec.port)
        if instance.spec.address and target in seen:
            yield instance.place.error(
                ("spec", "address"), f"{seen[target]} has the same address and port: one host is one WindowsInstance"
            )
        seen.setdefault(target, instance.place.object)


def _examine(instance: WindowsInstance, objects: SettingsObjects) -> Iterator[Finding]:
    spec, place = instance.spec, instance.place
    if not is_address(spec.address):
        hint = (
            "brackets and ports have no place here" if spec.address[:1] == "[" else "for example win-1.example.com or 10.0.0.7"
        )
        yield place.error(("spec", "address"), f"must be a DNS name or an IP address; {hint}")
    if not 1 <= spec.port <= 65535:
        yield place.error(("spec", "port"), "must be 1 to 65535")
    if not spec.username or not spec.username.isprintable():
        yield place.error(("spec", "username"), "must name the account to log in with, for example Administrator")
    if spec.node_name is not None and not NAME.match(spec.node_name):
        yield place.error(("spec", "nodeName"), "must be a DNS-1123 name: lower-case letters, digits, `-` and `.`")
    if spec.node_ip is not None and address(spec.node_ip) is None:
        yield place.error(("spec", "nodeIP"), "must be an IP address, without a prefix length and a port")
    if spec.host_key is not None and (fault := host_key_fault(spec.host_key)):
        yield place.error(("spec", "hostKey"), f"{fault}; copy the line from the host's ssh_host_ed25519_key.pub")
    if spec.lifecycle == "Node" and spec.cluster_ref is not None:
        message = "Node joins the cluster that Transom runs in; with spec.clusterRef it must be Egress"
        yield place.error(("spec", "lifecycle"), message)
    yield from _examine_key(instance, objects)
    if instance.cluster and not any((c.metadata.namespace, c.metadata.name) == instance.cluster for c in objects.clusters):
        yield place.error(("spec", "clusterRef"), f"there is no Cluster {'/'.join(instance.cluster)}")


def _examine_key(instance: WindowsInstance, objects: SettingsObjects) -> Iterator[Finding]:
    namespace, name = objects.namespace, instance.spec.key_secret.name
    path: Path = ("spec", "keySecret", "name")
    secret = objects.secret(namespace, name)
    if secret is None:
        yield instance.place.error(path, f"there is no Secret {namespace}/{name}; it holds the SSH key as `{KEY}`")
    elif KEY not in secret.data:
        yield secret.place.error(("data", KEY), f"the key is missing; {instance.place.object} is to be reached with it")
    for entry in (KEY, PREVIOUS):
        if secret is not None and entry in secret.data and entry not in secret.faulty:
            key = secret.data[entry]
            if key is None or "PRIVATE KEY-----" not in key.reveal():
                yield secret.place.error(("data", entry), "this is not a private key in PEM or OpenSSH form")
            elif has_passphrase(key.reveal()):
                message = "the private key has a passphrase, which nobody is there to type: give one without (ssh-keygen -p)"
                yield secret.place.error(("data", entry), message)


def has_passphrase(key: str) -> bool:
    """Whether a key asks for a passphrase: PKCS #8 and PEM say so in letters, OpenSSH in the cipher (PROTOCOL.key, 1)."""
    if "BEGIN ENCRYPTED PRIVATE KEY" in key or "Proc-Type: 4,ENCRYPTED" in key:
        return True
    body = "".join(line for line in key.splitlines() if "-----" not in line)
    try:
        raw = binascii.a2b_base64(body)
    except ValueError:
        return False
    return raw.startswith(_OPENSSH) and next(_fields(raw[len(_OPENSSH) :]), b"none") != b"none"


def is_address(text: str) -> bool:
    """Whether a host can be reached by this text: a DNS name, or an IP address without brackets and port."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # a name whose last label is a number is a mistyped IPv4 address (WHATWG URL, "ends in a number")
        return bool(_DNS_NAME.match(text)) and not text.rstrip(".").rsplit(".", 1)[-1].isdigit()
    return True


def address(text: str) -> str | None:
    """The IP address that a text is, in the one spelling that is compared; None for what is none.

    Zones (`%eth0`) are no part of it. A socket for both families shows an IPv4 address as an IPv6 one (`::ffff:10.0.0.7`; RFC
    4291, section 2.5.5.2): it is that IPv4 address here.
    """
    plain = text.partition("%")[0]
    return _spelled(plain) if len(plain) <= _LONGEST else None


# those of each Node and host are asked for in every pass, and with every heartbeat
@lru_cache(_KNOWN)
def _spelled(text: str) -> str | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def host_key_fault(line: str) -> str | None:
    """What is wrong with a public key that should be a line as in `ssh_host_ed25519_key.pub`; None where nothing is."""
    parts = line.split(None, 2)
    if len(parts) < 2 or "\n" in line.strip():
        return "must be one line: type, key, comment"
    if parts[0] not in _KEY_TYPES:
        return f"must begin with the key's type, one of {', '.join(_KEY_TYPES)}"
    try:
        raw = binascii.a2b_base64(parts[1], strict_mode=True)
    except ValueError:
        return "the key is not base64"
    fields = list(_fields(raw))
    whole = len(raw) == sum(4 + len(field) for field in fields) and len(fields) == (2 if parts[0] == "ssh-ed25519" else 3)
    if not whole or fields[0] != parts[0].encode() or (parts[0] == "ssh-ed25519" and len(fields[1]) != _ED25519):
        return "the key is not of the type before it, or is cut off"
    return None


def _fields(raw: bytes) -> Iterator[bytes]:
    """The strings of a key's blob, of which the first is its type (RFC 4253, section 6.6); one that is cut off is none."""
    while len(raw) >= _LENGTH:
        size = int.from_bytes(raw[:_LENGTH], "big")
        if len(raw) < _LENGTH + size:
            return
        yield raw[_LENGTH : _LENGTH + size]
        raw = raw[_LENGTH + size :]
