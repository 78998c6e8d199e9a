"""Private keys and certificates that no TLS server should load: OpenSSL works on some for minutes, others are of no use."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.entry_points.attacks import (
    GROUP_18,
    build_dh_key,
    build_explicit_curve_key,
    build_rsa_key,
    build_sealed_key,
    encode_pem,
)
from tests.windows.hostile_requests import encode, encode_integer, encode_oid

PRIVATE_KEYS: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "a Diffie-Hellman key of a slow group": build_dh_key,
        "a slow group behind another key": lambda: build_rsa_key(2_048) + build_dh_key(),
        "a DSA key": lambda: dsa.generate_private_key(1_024).private_bytes(
            Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
        ),
        "an RSA key of 16,384 bits": lambda: build_rsa_key(16_384),
        "a passphrase of 2**31 iterations": lambda: build_sealed_key(2**31 - 1).encode(),
        "a curve that is written out": build_explicit_curve_key,
        "1 MB of lines": lambda: b"-----BEGIN RSA PRIVATE KEY-----\n" + b"A\n" * 500_000,
        "junk in a known type": lambda: encode_pem("PRIVATE KEY", b"\x30" + b"x" * 200),
    }
)
"""By name; each value returns PEM."""


def build_unknown_curve() -> bytes:
    """Return a key of a permitted type that cannot be read: its curve is secp192k1."""
    algorithm = encode(0x30, encode_oid("2a8648ce3d0201") + encode_oid("2b8104001f"))
    inner = encode(0x30, encode_integer(1) + encode(4, b"\1" * 24))
    return encode_pem("PRIVATE KEY", encode(0x30, encode_integer(0) + algorithm + encode(4, inner)))


def build_dh_certificate(certificate: str) -> str:
    """Return a certificate with the other parts of this one, and a Diffie-Hellman key of a slow group."""
    value = x509.load_pem_x509_certificate(certificate.encode())
    group = encode(0x30, encode_integer(GROUP_18) + encode_integer(5))
    algorithm = encode(0x30, encode_oid("2a864886f70d010301") + group)
    key = encode(0x30, algorithm + encode(3, b"\0" + encode_integer(pow(5, 12_345, GROUP_18))))
    signature = encode(0x30, encode_oid("2a8648ce3d040302"))
    name, times = value.subject.public_bytes(), encode(0x30, encode(23, b"260101000000Z") + encode(23, b"360101000000Z"))
    body = encode(0x30, encode_integer(1) + signature + name + times + name + key)
    whole = encode(0x30, body + signature + encode(3, b"\0" + value.signature))
    return encode_pem("CERTIFICATE", whole).decode()
