"""Windows instances as nodes of a cluster: `WindowsInstance.transom.dev/v1alpha1`, and what is wrong with its description.

It also has what the other modules compare: an IP address in one spelling, and the names of Kubernetes for a kubelet's signers.
"""

import binascii
import ipaddress
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final, Literal

import msgspec

from transom.common.escaping import NAME, explain_invalid_name
from transom.proxy.finding import Finding, Path, Place
from transom.proxy.objects import Base, Meta, NameReference, SettingsObjects
from transom.proxy.secret import Secret
from transom.proxy.status import Status
from transom.windows.nodes.private_keys import NOT_A_KEY, find_private_key_fault, iter_fields

Lifecycle = Literal["Egress", "Node"]
KEY: Final = "private-key.pem"
_OTHER_KEYS: Final = ("ssh-privatekey", "id_ed25519", "id_rsa", "id_ecdsa", "identity", "private-key", "key", "key.pem")
"""What the key of a Secret is called elsewhere: by type kubernetes.io/ssh-auth, as a file of ssh, by Flux."""
PREVIOUS: Final = "private-key.previous.pem"
_LABEL = r"[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,61}[a-zA-Z0-9_])?"
_DNS_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*\.?\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::([0-9]+))?")
_DOTTED = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){3}")
_ED25519: Final = 32
"""Bytes of an Ed25519 key (RFC 8709, section 4)."""
_KEY_TYPES: Final = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
_LONGEST: Final = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
"""Characters of an IP address."""
_KNOWN: Final = 8192
MAX_ADDRESSES: Final = 16
"""Entries of `spec.addresses`."""
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
    addresses: tuple[str, ...] = ()
    host_key: str | None = None
    paused: bool = False
    cluster_ref: ClusterReference | None = None
    lifecycle: Lifecycle = "Egress"


class LastChange(Base, frozen=True):
    """`status.lastChange`: the last pass that changed the host. Names, and never a value."""

    time: str = ""
    summary: str = ""


class WindowsInstanceStatus(Status, frozen=True):
    """`status` of the object: an empty string is a missing field."""

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
    last_handled_reconcile: str = ""
    last_handled_restart: str = ""
    last_change: LastChange | None = None


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


def read_private_key(instance: WindowsInstance, objects: SettingsObjects) -> Secret | None:
    """Read the host's private key from a Secret in Transom's namespace; None if the Secret or its key is missing."""
    secret = objects.find_secret(objects.namespace, instance.spec.key_secret.name)
    return secret.data.get(KEY) if secret else None


def read_previous_keys(instance: WindowsInstance, objects: SettingsObjects) -> tuple[Secret, ...]:
    """Read the previous private key, if its Secret has one: a host that still accepts it is moved to the new one."""
    secret = objects.find_secret(objects.namespace, instance.spec.key_secret.name)
    previous_key = secret.data.get(PREVIOUS) if secret else None
    return (previous_key,) if previous_key is not None else ()


def examine_instances(instances: Iterable[WindowsInstance], objects: SettingsObjects) -> Iterator[Finding]:
    """Everything that is wrong with the instances."""
    seen: dict[tuple[str, int], str] = {}
    for instance in instances:
        yield from _examine_instance(instance, objects)
        target = (instance.spec.address.casefold(), instance.spec.port)
        if instance.spec.address and target in seen:
            yield instance.place.build_error(
                ("spec", "address"), f"{seen[target]} has the same address and port: one host is one WindowsInstance"
            )
        seen.setdefault(target, instance.place.object)


def _examine_instance(instance: WindowsInstance, objects: SettingsObjects) -> Iterator[Finding]:
    spec, place = instance.spec, instance.place
    if (fault := find_host_address_fault(spec.address)) is not None:
        yield place.build_error(("spec", "address"), fault)
    if not 1 <= spec.port <= 65535:
        yield place.build_error(("spec", "port"), "must be 1 to 65535")
    if spec.username and not spec.username.isprintable():
        message = r"has a control character: write it in single quotes, such as 'CORP\bob', since `\b` in double ones is one"
        yield place.build_error(("spec", "username"), message)
    elif not spec.username:
        yield place.build_error(("spec", "username"), "must name the account to log in with, for example Administrator")
    if spec.node_name is not None and not NAME.match(spec.node_name):
        yield place.build_error(("spec", "nodeName"), "must be a DNS-1123 name: lower-case letters, digits, `-` and `.`")
    if spec.node_ip is not None and parse_ip_address(spec.node_ip) is None:
        yield place.build_error(("spec", "nodeIP"), "must be an IP address, without a prefix length and a port")
    for index, text in enumerate(spec.addresses):
        if (fault := find_address_fault(text)) is not None:
            yield place.build_error(("spec", "addresses", index), fault)
    if len(spec.addresses) > MAX_ADDRESSES:
        yield place.build_error(("spec", "addresses"), f"must have at most {MAX_ADDRESSES} entries")
    if spec.host_key is not None and (fault := find_host_key_fault(spec.host_key)):
        yield place.build_error(("spec", "hostKey"), f"{fault}; copy the line from the host's ssh_host_ed25519_key.pub")
    if spec.lifecycle == "Node" and spec.cluster_ref is not None:
        message = "Node joins the cluster that Transom runs in; with spec.clusterRef it must be Egress"
        yield place.build_error(("spec", "lifecycle"), message)
    yield from _examine_key(instance, objects)
    if instance.cluster and not any((c.metadata.namespace, c.metadata.name) == instance.cluster for c in objects.clusters):
        yield place.build_error(("spec", "clusterRef"), f"no Cluster {'/'.join(instance.cluster)} exists")


def _examine_key(instance: WindowsInstance, objects: SettingsObjects) -> Iterator[Finding]:
    namespace, name = objects.namespace, instance.spec.key_secret.name
    path: Path = ("spec", "keySecret", "name")
    if fault := explain_invalid_name("Secret", name):
        yield instance.place.build_error(path, fault)
        return
    secret = objects.find_secret(namespace, name)
    if secret is None:
        maker = objects.describe_maker("Secret", namespace, name)
        yield instance.place.build_error(path, f"no Secret {namespace}/{name} exists; it holds the SSH key as `{KEY}`{maker}")
    elif secret.encrypted:
        return
    elif KEY not in secret.data:
        others = [name for name in _OTHER_KEYS if name in secret.data]
        hint = f": it exists as `{others[0]}`, rename it" if others else ""
        yield secret.place.build_error(("data", KEY), f"the key is missing; {instance.place.object} requires it{hint}")
    for entry in (KEY, PREVIOUS):
        if secret is not None and entry in secret.data and entry not in secret.faulty:
            key = secret.data[entry]
            fault = secret.unresolved.get(entry) or (NOT_A_KEY if key is None else find_private_key_fault(key))
            if fault is not None:
                yield secret.place.build_error(("data", entry), fault)


def is_address(text: str) -> bool:
    """Return True if the string is a host address: a DNS name, or an IP address without brackets and port."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # a name whose last label is a number is a mistyped IPv4 address (WHATWG URL, "ends in a number")
        return bool(_DNS_NAME.match(text)) and not text.rstrip(".").rsplit(".", 1)[-1].isdigit()
    return True


def find_host_address_fault(text: str) -> str | None:
    """Return why `spec.address` is not the address of a host, and what to write; None if it can be one."""
    if is_address(text):
        plain = parse_ip_address(text)
        if plain is None or not ipaddress.ip_address(plain).is_unspecified:
            return None
        return "is every address of a machine, not one to connect to: write an address of the host in your network"
    changes, address = _normalize_address(text)
    if not is_address(address):
        return "must be a DNS name or an IP address; for example win-1.example.com or 10.0.0.7"
    return f"must be a DNS name or an IP address: {', '.join(changes)}; write `{address}`"


def _normalize_address(text: str) -> tuple[list[str], str]:
    """Return how to change the text of a mistyped address, and the address that is left of it."""
    changes = []
    address = text.strip()
    if address != text:
        changes.append("remove the spaces around it")
    if match := _SCHEME.match(address):
        changes.append("remove the scheme")
        address = address[match.end() :]
    address, slash, path = address.partition("/") if "@" not in address else _split_path_after_user(address)
    if slash:
        changes.append("remove the prefix length" if path.isdecimal() else "remove the path")
    user, at, address = address.rpartition("@")
    if at:
        changes.append("move the user name to spec.username" if user else "remove the `@`")
    if match := _BRACKETED.fullmatch(address):
        changes.append("remove the brackets")
        address, port = match[1], match[2]
    else:
        host, colon, port = address.rpartition(":")
        address, port = (host, port) if colon and ":" not in host and port.isdecimal() else (address, "")
    if port:
        changes.append("move the port to spec.port")
    return _normalize_name(changes, address)


def _split_path_after_user(text: str) -> tuple[str, str, str]:
    user, at, rest = text.rpartition("@")
    host, slash, path = rest.partition("/")
    return f"{user}{at}{host}", slash, path


def _normalize_name(changes: list[str], address: str) -> tuple[list[str], str]:
    if _DOTTED.fullmatch(address):
        plain = ".".join(str(int(number)) for number in address.split("."))
        return ([*changes, "remove the leading zeros"] if plain != address else changes), plain
    if not address.isascii():
        from transom.proxy.clients.urls import Idn, UnreadableHostError, to_idn

        try:
            return [*changes, "use its ASCII form"], to_idn(address, Idn.ASCII)
        except UnreadableHostError:
            return changes, ""
    return changes, address


def find_address_fault(text: str) -> str | None:
    """Return what is wrong with one of `spec.addresses`, which serving certificates may contain; None if nothing is.

    A certificate for `localhost` or a loopback address would be valid for every machine that uses it.
    """
    if not is_address(text) or "%" in text:
        return "must be a DNS name or an IP address, without brackets, port and zone"
    plain = parse_ip_address(text)
    ip = ipaddress.ip_address(plain) if plain is not None else None
    name = text.rstrip(".").lower()
    if name == "localhost" or name.endswith((".localhost", ".localdomain")):
        return "is a name of every machine"
    if ip is not None and (ip.is_loopback or ip.is_unspecified or ip.is_multicast):
        return "is not the address of one machine"
    return None


def parse_ip_address(text: str) -> str | None:
    """Parse an IP address and return its canonical form; None if the string is not an IP address.

    Zones (`%eth0`) are removed. A socket for both families shows an IPv4 address as an IPv6 one (`::ffff:10.0.0.7`; RFC
    4291, section 2.5.5.2): the IPv4 address is returned for it.
    """
    plain = text.partition("%")[0]
    return _parse_canonical_address(plain) if len(plain) <= _LONGEST else None


# those of each Node and host are asked for in every pass, and with every heartbeat
@lru_cache(_KNOWN)
def _parse_canonical_address(text: str) -> str | None:
    try:
        ip_address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = ip_address.ipv4_mapped if isinstance(ip_address, ipaddress.IPv6Address) else None
    return str(mapped or ip_address)


def find_host_key_fault(line: str) -> str | None:
    """Return the error in a public key line (as in `ssh_host_ed25519_key.pub`); None if it is valid."""
    parts = line.split(None, 2)
    if len(parts) < 2 or "\n" in line.strip():
        return "must be one line: type, key, comment"
    if parts[0] not in _KEY_TYPES:
        return f"must begin with the key's type, one of {', '.join(_KEY_TYPES)}"
    try:
        raw = binascii.a2b_base64(parts[1], strict_mode=True)
    except ValueError:
        return "the key is not base64"
    blob = list(iter_fields(raw))
    size = 2 if parts[0] == "ssh-ed25519" else 3
    whole = len(raw) == sum(4 + len(part) for part in blob) and len(blob) == size
    if not whole or blob[0] != parts[0].encode() or (parts[0] == "ssh-ed25519" and len(blob[1]) != _ED25519):
        return "the key is not of the type before it, or is cut off"
    return None if _is_public_key(f"{parts[0]} {parts[1]}") else "the key is not one of its type"


def _is_public_key(line: str) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        load_ssh_public_key(line.encode())
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True
