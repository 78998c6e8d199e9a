r"""How an administrator's CA looks in the registry: ``…\SystemCertificates\ROOT\Certificates\<SHA-1>``, value ``Blob``.

Independent of Transom's own code, which the lab is there to test.
"""

from __future__ import annotations

import hashlib
import struct

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

_STORE = r"HKEY_LOCAL_MACHINE\SOFTWARE\Microsoft\SystemCertificates\ROOT\Certificates"
_SHA1, _CERTIFICATE = 3, 32  # CERT_SHA1_HASH_PROP_ID, CERT_CERT_PROP_ID of wincrypt.h


def trusted(pem: str) -> str:
    """The registry text that puts a certificate into LocalMachine's ROOT store."""
    der = _der(pem)
    blob = _property(_SHA1, hashlib.sha1(der).digest()) + _property(_CERTIFICATE, der)
    return f'[{key(pem)}]\n"Blob"=hex:{",".join(f"{byte:02x}" for byte in blob)}'


def untrusted(pem: str) -> str:
    """The registry text that takes it out."""
    return f"[-{key(pem)}]"


def key(pem: str) -> str:
    """The key of the certificate."""
    return rf"{_STORE}\{hashlib.sha1(_der(pem)).hexdigest().upper()}"


def _der(pem: str) -> bytes:
    return x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER)


def _property(number: int, value: bytes) -> bytes:
    return struct.pack("<III", number, 1, len(value)) + value
