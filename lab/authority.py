"""The certificate authority of a test cluster."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_LIFE = datetime.timedelta(days=30)


class Authority:
    """Makes certificates in a directory: ``ca.crt`` and ``ca.key`` at once, others by ``issue``."""

    def __init__(self, directory: Path, name: str = "test-ca", *, for_wine: bool = False) -> None:
        """Create the CA. `for_wine`: with an RSA key, for what Wine verifies with the machine's certificate stores.

        Wine 8 rejects an ECDSA signature as forged if one of its two numbers is shorter than 32 bytes, as in one of 128
        signatures (observed: Wine refused each CA with such a signature, and no other).
        """
        self.directory = directory
        self.certificate_file = directory / "ca.crt"
        self.key_file = directory / "ca.key"
        self._key: PrivateKey = rsa.generate_private_key(65537, 2048) if for_wine else ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = self._create_builder(self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(True, None), True
        )
        self._certificate = builder.add_extension(usage, True).sign(self._key, hashes.SHA256())
        _write_key(self.key_file, self._key)
        self.certificate_file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, file: str, name: str, organizations: tuple[str, ...] = (), addresses: tuple[str, ...] = ()
    ) -> tuple[Path, Path]:
        """Write ``<file>.crt`` and ``<file>.key``: a server's with addresses (names or IPs), else a client's."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
        subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._create_builder(subject, key.public_key())
        if addresses:
            builder = builder.add_extension(x509.SubjectAlternativeName([_build_general_name(a) for a in addresses]), False)
        purpose = ExtendedKeyUsageOID.SERVER_AUTH if addresses else ExtendedKeyUsageOID.CLIENT_AUTH
        certificate = builder.add_extension(x509.ExtendedKeyUsage([purpose]), False).sign(self._key, hashes.SHA256())
        certificate_file, key_file = self.directory / f"{file}.crt", self.directory / f"{file}.key"
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_key(key_file, key)
        return certificate_file, key_file

    def _create_builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + _LIFE)
        )


def write_key_pair(private: Path, public: Path) -> None:
    """Write an RSA key pair as PEM: what an API server signs service account tokens with."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write_key(private, key)
    encoding, layout = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(encoding, layout))


def _write_key(path: Path, key: PrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )


def _build_general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)
