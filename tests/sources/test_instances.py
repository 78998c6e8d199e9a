"""`WindowsInstance`: what is valid, and the key that opens the host."""

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from tests.support.bundles import NOW, cluster, private_key, secret, write

from transom.sources.directory import load_objects
from transom.sources.examination import examine_objects
from transom.windows.nodes.windows_instance import find_host_address_fault
from transom.windows.nodes.windows_instance import read_private_key as key_of

KEY = secret("cloud-private-key", stringData={"private-key.pem": private_key()})
OTHER = secret("other", stringData={"private-key.pem": private_key()})
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE2tK1qXzV8yZ0bq3y5x7r9w1u3i5o7p9a1s3d5f7g9h administrator@win-1"
RSA, ECDSA = (
    made.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    for made in (rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1()))
)


def cut(line: str, size: int) -> str:
    """The key without its last bytes."""
    kind, _, rest = line.partition(" ")
    raw = base64.b64decode(rest.partition(" ")[0])
    return f"{kind} {base64.b64encode(raw[:-size]).decode()}"


def instance(name: str = "win-1", **spec: Any) -> dict[str, Any]:
    spec = {"address": "win-1.example.com", "username": "Administrator"} | spec
    meta = {"name": name}
    return {"apiVersion": "transom.dev/v1alpha1", "kind": "WindowsInstance", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({}, []),
        ({"address": "10.0.0.7"}, []),
        ({"address": "2001:db8::7"}, []),
        ({"address": "WIN-1"}, []),
        ({"address": "win_1.corp"}, []),
        ({"address": "win-1.corp."}, []),
        ({"address": ""}, ["spec.address"]),
        ({"address": "0.0.0.0"}, ["spec.address"]),
        ({"address": "::"}, ["spec.address"]),
        ({"address": None}, ["spec.address"]),
        ({"address": "[2001:db8::7]"}, ["spec.address"]),
        ({"address": "10.0.0.7:22"}, ["spec.address"]),
        ({"address": "10.0.0.256"}, ["spec.address"]),
        ({"address": "10.0.7"}, ["spec.address"]),
        ({"address": "a b"}, ["spec.address"]),
        ({"address": "-a"}, ["spec.address"]),
        ({"address": "x" * 64}, ["spec.address"]),
        ({"address": ".".join(["abc"] * 70)}, ["spec.address"]),
        ({"port": 2222}, []),
        ({"port": 0}, ["spec.port"]),
        ({"port": 65536}, ["spec.port"]),
        ({"port": "22"}, ["spec.port"]),
        ({"username": "CORP\\admin"}, []),
        ({"username": ""}, ["spec.username"]),
        ({"username": None}, ["spec.username"]),
        ({"username": "a\nb"}, ["spec.username"]),
        ({"keySecret": "other"}, []),
        ({"keySecret": {"name": "other"}}, []),
        ({"keySecret": "nobody"}, ["spec.keySecret.name"]),
        ({"keySecret": ["other"]}, ["spec.keySecret"]),
        ({"nodeName": "win-1"}, []),
        ({"nodeName": "Win-1"}, ["spec.nodeName"]),
        ({"hostKey": ED25519}, []),
        ({"hostKey": ED25519 + "\n"}, []),
        ({"hostKey": ED25519.replace(" administrator@win-1", "")}, []),
        ({"hostKey": ED25519.split()[1]}, ["spec.hostKey"]),
        ({"hostKey": "ssh-dss AAAA"}, ["spec.hostKey"]),
        ({"hostKey": "ssh-ed25519 AAAA"}, ["spec.hostKey"]),
        ({"hostKey": "ssh-ed25519 ?"}, ["spec.hostKey"]),
        ({"hostKey": cut(ED25519, 1)}, ["spec.hostKey"]),
        ({"hostKey": cut(ED25519, 32)}, ["spec.hostKey"]),
        ({"hostKey": cut(ED25519, 36)}, ["spec.hostKey"]),
        ({"hostKey": cut(RSA, 10)}, ["spec.hostKey"]),
        ({"hostKey": RSA}, []),
        ({"hostKey": ECDSA}, []),
        ({"hostKey": "win-1 " + ED25519}, ["spec.hostKey"]),
        ({"hostKey": "ssh-rsa " + ED25519.split()[1]}, ["spec.hostKey"]),
        ({"hostKey": ED25519 + "\n" + ED25519}, ["spec.hostKey"]),
        ({"lifecycle": "Node"}, []),
        ({"lifecycle": "node"}, ["spec.lifecycle"]),
        ({"paused": True}, []),
        ({"paused": "later"}, ["spec.paused"]),
        ({"clusterRef": {"name": "prod", "namespace": "org-x"}}, []),
        ({"clusterRef": {"name": "prod"}}, ["spec.clusterRef"]),
        ({"clusterRef": {"name": "prod", "namespace": "org-x"}, "lifecycle": "Node"}, ["spec.lifecycle"]),
        ({"adress": "x"}, ["spec.adress"]),
    ],
)
def test_instance(spec: dict[str, Any], wrong: list[str], tmp_path: Path) -> None:
    found = examine_objects(load_objects([write(tmp_path, instance(**spec), KEY, OTHER, cluster("prod"))]), NOW)
    assert [(error.object, error.field) for error in found.errors] == [
        ("WindowsInstance/transom-system/win-1", field) for field in wrong
    ]


@pytest.mark.parametrize(
    ("held", "object_", "field"),
    [
        ({"stringData": {"id_rsa": private_key()}}, "Secret/transom-system/cloud-private-key", "data[private-key.pem]"),
        ({"stringData": {"private-key.pem": "hunter2"}}, "Secret/transom-system/cloud-private-key", "data[private-key.pem]"),
        ({"data": {"private-key.pem": "?"}}, "Secret/transom-system/cloud-private-key", "data[private-key.pem]"),
        (
            {"stringData": {"private-key.pem": private_key(), "private-key.previous.pem": "hunter2"}},
            "Secret/transom-system/cloud-private-key",
            "data[private-key.previous.pem]",
        ),
    ],
)
def test_a_secret_without_a_usable_key(held: dict[str, Any], object_: str, field: str, tmp_path: Path) -> None:
    found = examine_objects(load_objects([write(tmp_path, instance(), secret("cloud-private-key", **held))]), NOW)
    assert [(error.object, error.field) for error in found.errors] == [(object_, field)]


def test_the_key_is_a_secret(tmp_path: Path) -> None:
    objects = load_objects([write(tmp_path, instance(), KEY)])
    (host,) = objects.windows_instances
    key = key_of(host, objects)
    assert key is not None
    assert key.reveal() == private_key()
    assert "PRIVATE" not in repr(key) + repr(objects)


def test_one_host_is_one_instance(tmp_path: Path) -> None:
    found = examine_objects(
        load_objects([write(tmp_path, instance(), instance("win-2", address="WIN-1.example.com"), KEY)]), NOW
    )
    assert [(error.object, error.field) for error in found.errors] == [("WindowsInstance/transom-system/win-2", "spec.address")]


def test_an_object_twice(tmp_path: Path) -> None:
    found = examine_objects(
        load_objects([write(tmp_path, instance(), KEY), write(tmp_path, instance(), name="more.yaml")]), NOW
    )
    assert any("duplicate object" in error.message for error in found.errors)


def test_another_version_of_the_api(tmp_path: Path) -> None:
    found = examine_objects(load_objects([write(tmp_path, instance() | {"apiVersion": "transom.dev/v1"})]), NOW)
    assert [error.field for error in found.errors] == ["apiVersion"]


def test_another_kind_of_ours(tmp_path: Path) -> None:
    found = examine_objects(load_objects([write(tmp_path, instance() | {"kind": "EgressProxies"})]), NOW)
    assert [error.field for error in found.errors] == ["kind"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fd00::1]", "remove the brackets; write `fd00::1`"),
        ("[fd00::1]:22", "remove the brackets, move the port to spec.port; write `fd00::1`"),
        ("10.0.0.1 ", "remove the spaces around it; write `10.0.0.1`"),
        ("ssh://10.0.0.1", "remove the scheme; write `10.0.0.1`"),
        ("Administrator@10.0.0.1", "move the user name to spec.username; write `10.0.0.1`"),
        (
            "ssh://bob:hunter2/x@10.0.0.1:22",
            "spec.username, move the port to spec.port; write `10.0.0.1`",
        ),
        ("10.0.0.11/32", "remove the prefix length; write `10.0.0.11`"),
        ("010.0.0.11", "remove the leading zeros; write `10.0.0.11`"),
        ("10.0.0.1:22", "move the port to spec.port; write `10.0.0.1`"),
        ("bücher.example", "use its ASCII form; write `xn--bcher-kva.example`"),
        ("0.0.0.0", "write an address of the host"),
        ("a b", "for example win-1.example.com"),
    ],
)
def test_a_wrong_address_has_its_correction(text: str, message: str) -> None:
    fault = find_host_address_fault(text) or ""
    assert message in fault
    assert "hunter2" not in fault
