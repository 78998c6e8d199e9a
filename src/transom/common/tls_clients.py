"""TLS contexts for servers of others.

For finite-field Diffie-Hellman, a server chooses the group: OpenSSL accepts 10,000 bits, which take a second of CPU time for
each handshake, on the event loop. Few servers have nothing else: Go, and so every API server, has no such cipher suite
(crypto/tls, `cipher_suites.go`). Groups of TLS 1.3 are named ones of at most 8,192 bits, with short exponents (RFC 7919).
"""

import ssl
from typing import Final

_KEPT: Final = frozenset(("kx-ecdhe", "kx-rsa"))
_TLS_1_3: Final = "TLSv1.3"
"""Its suites have no key exchange of their own, and are always on."""


def create_client_context(authorities: str | None = None) -> ssl.SSLContext:
    """Create a context that trusts these CAs, as PEM; without any, those of the system (SSL_CERT_FILE). Raises ssl.SSLError."""
    context = ssl.create_default_context(cadata=authorities)
    restrict_key_exchanges(context)
    return context


def create_bare_context() -> ssl.SSLContext:
    """Create a context that trusts no CA yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    restrict_key_exchanges(context)
    return context


def restrict_key_exchanges(context: ssl.SSLContext) -> None:
    """Keep those of the cipher suites of a context whose key exchange costs little, whatever the server chooses."""
    suites = context.get_ciphers()
    context.set_ciphers(":".join(suite["name"] for suite in suites if suite["kea"] in _KEPT and suite["protocol"] != _TLS_1_3))
