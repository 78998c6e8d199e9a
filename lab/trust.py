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


def render_trust(pem: str) -> str:
    """Render the registry text that adds a certificate to LocalMachine's ROOT store."""
    der = _convert_to_der(pem)
    blob = _build_property(_SHA1, hashlib.sha1(der).digest()) + _build_property(_CERTIFICATE, der)
    return f'[{build_key(pem)}]\n"Blob"=hex:{",".join(f"{byte:02x}" for byte in blob)}'


def render_distrust(pem: str) -> str:
    """Render the registry text that removes a certificate from LocalMachine's ROOT store."""
    return f"[-{build_key(pem)}]"


def build_key(pem: str) -> str:
    """Return the registry key of a certificate."""
    return rf"{_STORE}\{hashlib.sha1(_convert_to_der(pem)).hexdigest().upper()}"


def _convert_to_der(pem: str) -> bytes:
    return x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER)


def _build_property(number: int, value: bytes) -> bytes:
    return struct.pack("<III", number, 1, len(value)) + value
