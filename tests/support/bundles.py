"""Certificates and manifests for the tests of settings."""

import datetime
import functools
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
PASSWORD = 'hunter2%^&!"\\é x'


@functools.cache
def key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@functools.cache
def certificate(
    name: str, issuer: str | None = None, begins: str = "2020-01-01", ends: str = "2040-01-01", *, authority: bool | None = True
) -> str:
    """A certificate in PEM: self-issued without `issuer`; with `authority` None it has no basic constraints."""
    subject, issued = (
        x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Corp, Inc"), x509.NameAttribute(NameOID.COMMON_NAME, text)])
        for text in (name, issuer or name)
    )
    before, after = (datetime.datetime.fromisoformat(text) for text in (begins, ends))
    builder = x509.CertificateBuilder(issued, subject, key().public_key(), x509.random_serial_number(), before, after)
    if authority is not None:
        builder = builder.add_extension(x509.BasicConstraints(authority, None), True)
    return builder.sign(key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


@functools.cache
def private_key(passphrase: str = "") -> str:
    sealed: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        sealed = serialization.BestAvailableEncryption(passphrase.encode())
    return key().private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, sealed).decode()


def config_map(name: str, data: dict[str, str], namespace: str | None = None) -> dict[str, Any]:
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def secret(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **fields}


def egress_proxy(spec: dict[str, Any], name: str = "cluster") -> dict[str, Any]:
    return {"apiVersion": "transom.dev/v1alpha1", "kind": "EgressProxy", "metadata": {"name": name}, "spec": spec}


def openshift_proxy(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    proxy = {"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}, "spec": spec}
    return proxy | ({"status": status} if status is not None else {})


def cluster(name: str, labels: dict[str, str] | None = None, **network: Any) -> dict[str, Any]:
    """A Cluster API cluster with the networks of the RFC."""
    spec: dict[str, Any] = {
        "clusterNetwork": {
            "serviceDomain": "cluster.local",
            "services": {"cidrBlocks": ["100.64.0.0/13"]},
            "pods": {"cidrBlocks": ["100.96.0.0/11"]},
        },
        "controlPlaneEndpoint": {"host": "178.170.32.59", "port": 6443},
    }
    meta = {"name": name, "namespace": "org-x", "labels": labels or {}}
    return {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": meta, "spec": spec | network}


def write(directory: Path, *objects: dict[str, Any], name: str = "manifests.yaml") -> str:
    """The objects as one file of a directory; gives the directory."""
    (directory / name).write_text(yaml.safe_dump_all(objects, allow_unicode=True), "utf-8")
    return str(directory)
