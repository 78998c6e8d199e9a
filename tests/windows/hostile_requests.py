"""PKCS #10 requests that a stranger could make: small ones whose check is dear, and large ones."""

import base64
import ipaddress
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from asyncssh.kex_dh import _group18_p as GROUP_18  # the prime of RFC 3526
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

_NODE: Final = "system:node:win-1"


def encode(tag: int, content: bytes) -> bytes:
    """Return one DER value."""
    length = len(content)
    digits = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag]) + (bytes([length]) if length < 128 else bytes([0x80 | len(digits)]) + digits) + content


def encode_integer(number: int) -> bytes:
    """Return a DER INTEGER that is not negative."""
    return encode(2, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def encode_oid(hexadecimal: str) -> bytes:
    """Return a DER OBJECT IDENTIFIER from its content."""
    return encode(6, bytes.fromhex(hexadecimal))


RSA: Final = encode(0x30, encode_oid("2a864886f70d010101") + encode(5, b""))
_SHA256_RSA: Final = encode(0x30, encode_oid("2a864886f70d01010b") + encode(5, b""))
_SHA256_DSA: Final = encode(0x30, encode_oid("608648016503040302"))


def build_unsigned(
    algorithm: bytes, key: bytes, signature_algorithm: bytes = _SHA256_RSA, signature: bytes = b"x" * 256
) -> bytes:
    """Return a request as PEM with such a public key, whose signature fits nothing."""
    attributes = (("55040a", b"system:nodes"), ("550403", _NODE.encode()))
    names = (encode(0x31, encode(0x30, encode_oid(oid) + encode(0x0C, text))) for oid, text in attributes)
    public_key = encode(0x30, algorithm + encode(3, b"\0" + key))
    info = encode(0x30, encode_integer(0) + encode(0x30, b"".join(names)) + public_key + encode(0xA0, b""))
    body = encode(0x30, info + signature_algorithm + encode(3, b"\0" + signature))
    return b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(body) + b"-----END CERTIFICATE REQUEST-----\n"


def build_dh(generator: int) -> bytes:
    """Return a request with a Diffie-Hellman key: without the usual generator OpenSSL tests its prime for being one."""
    algorithm = encode(
        0x30, encode_oid("2a864886f70d010301") + encode(0x30, encode_integer(GROUP_18) + encode_integer(generator))
    )
    return build_unsigned(algorithm, encode_integer(pow(generator, 12345, GROUP_18)))


def build_dhx() -> bytes:
    """Return a request with a key of X9.42, the other kind of Diffie-Hellman."""
    numbers = (GROUP_18, 5, (GROUP_18 - 1) // 2)
    algorithm = encode(
        0x30, encode_oid("2a8648ce3e0201") + encode(0x30, b"".join(encode_integer(number) for number in numbers))
    )
    return build_unsigned(algorithm, encode_integer(pow(5, 12345, GROUP_18)))


def build_rsa(bits: int, exponent: int = 65_537) -> bytes:
    """Return a request with an RSA key of that many bits, which nobody has."""
    return build_unsigned(RSA, encode(0x30, encode_integer((1 << bits) - 1) + encode_integer(exponent)))


def build_dsa() -> bytes:
    """Return a request with a DSA key of 10,000 bits."""
    numbers = ((1 << 10_000) - 1, (1 << 9_000) - 1, 2)
    algorithm = encode(
        0x30, encode_oid("2a8648ce380401") + encode(0x30, b"".join(encode_integer(number) for number in numbers))
    )
    signature = encode(0x30, encode_integer((1 << 8_000) - 1) + encode_integer((1 << 8_000) - 3))
    return build_unsigned(algorithm, encode_integer((1 << 9_999) - 1), _SHA256_DSA, signature)


def build_explicit_curve() -> bytes:
    """Return a request whose elliptic curve is written out, over a field of 8,192 bits."""
    field = encode(0x30, encode_oid("2a8648ce3d0101") + encode_integer(GROUP_18))
    curve = encode(0x30, encode(4, b"\1" * 1024) + encode(4, b"\2" * 1024))
    base = encode(4, b"\4" + b"\3" * 2048)
    parameters = encode(0x30, encode_integer(1) + field + curve + base + encode_integer(GROUP_18 - 2) + encode_integer(1))
    return build_unsigned(encode(0x30, encode_oid("2a8648ce3d0201") + parameters), b"\4" + b"\3" * 2048)


def build_large(
    *,
    names: int = 0,
    common_name: str = _NODE,
    dns_name: str = "",
    extension: int = 0,
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
) -> bytes:
    """Return a well-signed request, one part of which is large: equal SANs, a text, or an extension nobody knows."""
    subject = (
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, common_name, _validate=False),
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    alternatives = [x509.DNSName(dns_name)] if dns_name else [x509.DNSName("win-1")] * names
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    if extension:
        unknown = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"x" * extension)
        builder = builder.add_extension(unknown, critical=False)
    return builder.sign(key or ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)


def nest(levels: int) -> bytes:
    """Return values of DER in each other."""
    value = b""
    for _ in range(levels):
        value = encode(0x30, value)
    return value


def build_name(oid: str, tag: int, content: bytes) -> bytes:
    """Return one part of a subject, its value of a type of ASN.1 by its tag."""
    return encode(0x31, encode(0x30, encode_oid(oid) + encode(tag, content)))


_SUBJECT: Final = build_name("55040a", 0x0C, b"system:nodes") + build_name("550403", 0x0C, _NODE.encode())


def build_request(subject: bytes, attributes: bytes = b"") -> bytes:
    """Return an unsigned request with an RSA key, and a subject and attributes in DER."""
    key = encode(0x30, RSA + encode(3, b"\0" + encode(0x30, encode_integer((1 << 2_048) - 1) + encode_integer(65_537))))
    info = encode(0x30, encode_integer(0) + encode(0x30, subject) + key + encode(0xA0, attributes))
    body = encode(0x30, info + _SHA256_RSA + encode(3, b"\0" + b"x" * 256))
    return b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(body) + b"-----END CERTIFICATE REQUEST-----\n"


def build_addresses() -> bytes:
    """Return a well-signed request of as many addresses as fit below the bound."""
    subject = (
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, _NODE),
    )
    addresses = [x509.IPAddress(ipaddress.ip_address(number)) for number in range(1_800)]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)


HOSTILE_REQUESTS: Final[Mapping[str, Callable[[], bytes]]] = MappingProxyType(
    {
        "dh-generator-5": lambda: build_dh(5),
        "dh-generator-2": lambda: build_dh(2),
        "dhx": build_dhx,
        "dsa-10000": build_dsa,
        "explicit-curve": build_explicit_curve,
        "rsa-16384": lambda: build_rsa(16_384),
        "rsa-3072-long-exponent": lambda: build_rsa(3_072, (1 << 3_071) - 1),
        "rsa-512": lambda: build_rsa(512),
        "large-names": lambda: build_large(names=60_000),
        "large-common-name": lambda: build_large(common_name=_NODE + "x" * 800_000),
        "large-dns-name": lambda: build_large(dns_name="x" * 800_000),
        "addresses-below-the-bound": build_addresses,
        "nested-subject": lambda: build_request(nest(2_000)),
        "nested-extensions": lambda: build_request(
            _SUBJECT, encode(0x30, encode_oid("2a864886f70d01090e") + encode(0x31, nest(2_000)))
        ),
        "unreadable-name": lambda: build_request(
            build_name("55040a", 0x0C, b"system:nodes") + build_name("550403", 0x1E, b"\xd8\0\0")
        ),
        "many-attributes": lambda: build_request(_SUBJECT + build_name("550407", 0x0C, b"x") * 600),
        "rsa-4096-long-exponent": lambda: build_rsa(4_096, (1 << 4_095) - 1),
        "rsa-pss": lambda: build_unsigned(
            encode(0x30, encode_oid("2a864886f70d01010a")),
            encode(0x30, encode_integer((1 << 8_000) - 1) + encode_integer(3)),
        ),
        "curve-of-two-to-the-571": lambda: build_unsigned(
            encode(0x30, encode_oid("2a8648ce3d0201") + encode_oid("2b81040027")), b"\4" + b"\1" * 144
        ),
        "ends-without-number": lambda: b"-----BEGIN CERTIFICATE REQUEST-----\n" * 400,
        "large-extension": lambda: build_large(extension=800_000),
    }
)
"""By name; each value returns PEM."""
