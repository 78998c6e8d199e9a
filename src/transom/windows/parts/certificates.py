"""Certificates as crypt32 keeps them in the registry: one key for each, named by SHA-1, with a `Blob` of properties.

A blob has for each property three little-endian uint32 (id, 1, length) and the bytes. That was seen in exports of Windows and
Wine; Microsoft documents the numbers of properties in wincrypt.h as CERT_*_PROP_ID.
"""

import struct
from collections.abc import Iterator

from transom.windows.host.queries import STORES
from transom.windows.registry.values import Value, ValueType, build_binary

ROOT = "ROOT"
CA = "CA"
DISALLOWED = "Disallowed"
POLICIES = r"HKEY_LOCAL_MACHINE\SOFTWARE\Policies\Microsoft\SystemCertificates"

_SHA1_HASH = 3
_CERTIFICATE = 32
_HEADER = struct.Struct("<III")


def get_store_path(name: str) -> str:
    """Return the registry key that holds the certificates of a LocalMachine store."""
    return rf"{STORES}\{name}\Certificates"


def get_policy_store_path(name: str) -> str:
    """Return the key for group policy certificates.

    Source: Microsoft, "System store locations", LOCAL_MACHINE_GROUP_POLICY.
    """
    return rf"{POLICIES}\{name}\Certificates"


def build_blob(der: bytes, sha1: str) -> Value:
    """Build the smallest blob that crypt32 accepts: the SHA-1 (hex) and the certificate itself."""
    parts = ((_SHA1_HASH, bytes.fromhex(sha1)), (_CERTIFICATE, der))
    return build_binary(b"".join(_HEADER.pack(number, 1, len(value)) + value for number, value in parts))


def parse_certificate(value: Value | None) -> bytes | None:
    """Return the DER certificate in a blob, or None: a missing, damaged or foreign value holds no trust."""
    if value is None or value.type != ValueType.BINARY:
        return None
    return next((present for number, present in _iter_properties(value.data) if number == _CERTIFICATE), None)


def _iter_properties(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(data):
        number, _, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        if at + length > len(data):
            return
        yield number, data[at : at + length]
        at += length
