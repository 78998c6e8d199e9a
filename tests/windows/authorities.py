"""Certificates made once for the tests: two roots and an intermediate."""

import datetime
import functools

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from transom.proxy.trust import Certificate, parse_bundle


@functools.cache
def authorities() -> tuple[x509.Certificate, x509.Certificate, x509.Certificate]:
    """Root one, root two, and an intermediate that root one issued."""
    return _made("Corp Root 1", "Corp Root 1"), _made("Corp Root 2", "Corp Root 2"), _made("Corp Issuing", "Corp Root 1")


def authority(name: str) -> Certificate:
    """A root of that name, as a bundle holds it."""
    (found,) = parse_bundle(_made(name, name).public_bytes(Encoding.PEM)).certificates
    return found


def _made(subject: str, issuer: str) -> x509.Certificate:
    key, start = _key(), datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(_name(subject)).issuer_name(_name(issuer)).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(start)
    builder = builder.not_valid_after(start + datetime.timedelta(days=3650))
    return builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256())


@functools.cache
def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def sha1(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA1()).hex().upper()
