"""Certificates of a node, with its names and usages."""

import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from transom.windows.nodes.windows_instance import parse_ip_address

_KEY = ec.generate_private_key(ec.SECP256R1())
CLIENT_USAGES = ("digital signature", "client auth")
SERVING_USAGES = ("digital signature", "server auth")


def pem(
    name: str = "system:node:win-1", organizations: Sequence[str] = ("system:nodes",), sans: Sequence[str] = (), unit: str = ""
) -> bytes:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    attributes += [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
    attributes += [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit)] if unit else []
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    if sans:
        builder = builder.add_extension(x509.SubjectAlternativeName([general(san) for san in sans]), critical=False)
    return builder.sign(_KEY, hashes.SHA256()).public_bytes(Encoding.PEM)


def general(text: str) -> x509.GeneralName:
    if text.startswith("uri:"):
        return x509.UniformResourceIdentifier(text)
    if "@" in text:
        return x509.RFC822Name(text)
    return x509.IPAddress(ipaddress.ip_address(text)) if parse_ip_address(text) else x509.DNSName(text)
