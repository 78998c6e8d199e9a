"""Types of keys: a private key in PEM is looked at before OpenSSL loads it.

OpenSSL tests the numbers of some types for being prime, for minutes (Diffie-Hellman): those are not loaded at all.
"""

import binascii
import re
from collections.abc import Iterator
from typing import Final

_ALGORITHM: Final = re.compile(
    rb"\x30(?:[\x00-\x7f]|\x81.|\x82..|\x83...)\x02\x01[\x00\x01]\x30(?:[\x00-\x7f]|\x81.|\x82..)"
    rb"(?:\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01|\x06\x07\x2a\x86\x48\xce\x3d\x02\x01|\x06\x03\x2b\x65\x70)",
    re.DOTALL,
)
"""The beginning of a PKCS #8 key of RSA, ECDSA or Ed25519 in DER (RFC 5208, 5; RFC 3279, 2.3; RFC 8410, 3)."""
_HEAD: Final = 64
"""Characters of base64 in which it stands."""
_PKCS8: Final = "-----BEGIN PRIVATE KEY-----"
_LABEL: Final = re.compile(r"-----BEGIN ([^-\n]*)-----")
_LABELS: Final = frozenset({"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "EC PARAMETERS"})
MAX_SERVED_KEY: Final = 8 << 10
"""Characters of the private key of a TLS server; one for RSA with 8,192 bits, cert-manager's largest, has 6,500."""

NOT_SERVABLE: Final = "its key is not an RSA, ECDSA or Ed25519 key of up to 8,192 bits without a passphrase"


def iter_pkcs8_heads(text: str) -> Iterator[bytes]:
    """Yield the first bytes of each PKCS #8 key: cryptography reads the first block that has a label it knows.

    Raises:
        ValueError: what follows such a label is not base64.
    """
    for content in text.split(_PKCS8)[1:]:
        yield binascii.a2b_base64("".join(content[: 2 * _HEAD].split())[:_HEAD])


def has_permitted_algorithm(head: bytes) -> bool:
    """Return True if a PKCS #8 key that begins like this is for RSA, ECDSA or Ed25519."""
    return _ALGORITHM.match(head) is not None


def is_servable_key(text: str) -> bool:
    """Return True if a private key in PEM may be loaded for a TLS server: small, without a passphrase, of a permitted type."""
    if len(text) > MAX_SERVED_KEY or "ENCRYPTED" in text or not set(_LABEL.findall(text)) <= _LABELS:
        return False
    try:
        return all(has_permitted_algorithm(head) for head in iter_pkcs8_heads(text))
    except ValueError:
        return False
