"""Trusted CAs as PEM, and where they lie on a host."""

from cryptography.hazmat.primitives.serialization import Encoding
from tests.windows.authorities import authorities, sha1

from transom.windows.parts.certificates import ROOT, get_store_path
from winsim import Host

ROOT_1, ROOT_2, ISSUING = (authority.public_bytes(Encoding.PEM).decode() for authority in authorities())
SHA1_1, SHA1_2, SHA1_ISSUING = map(sha1, authorities())


def roots(host: Host) -> set[str]:
    return {name.upper() for name in host.registry.list_children(get_store_path(ROOT))}
