"""The CAs and the client certificate of a kubeconfig, as an OpenSSL context."""

import base64
import contextlib
import os
import ssl
from collections.abc import Iterator

from transom.common.regular_files import read_regular_file
from transom.common.tls_clients import create_client_context, restrict_key_exchanges
from transom.kube.credentials import ClientCertificate
from transom.kube.errors import ConfigurationError
from transom.kube.kubeconfig import ClusterEntry, SelectedContext, User


def build_tls_context(chosen: SelectedContext, certificate: ClientCertificate | None = None) -> "ServerContext":
    """Build the TLS context for the server. Raises ConfigurationError."""
    try:
        context = _build_server_context(chosen.cluster)
        if certificate is not None:
            _load_certificate(context, certificate.chain.encode(), certificate.key.encode())
        else:
            _load_client_certificate(context, chosen.user)
    except (OSError, ValueError) as error:
        # of OpenSSL and of base64: neither says a value
        raise ConfigurationError(f"{chosen.source}: a certificate or key of it cannot be read: {error}") from error
    return context


class ServerContext(ssl.SSLContext):
    """A server's context; for the proxy in between, if `proxy_host` names it, a context of the system's CAs.

    aiohttp uses one context for both, as Go does: the kubeconfig's own authority does not apply to another party's proxy.
    """

    proxy_host: str | None = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """As the base does, with the context that belongs to the name."""
        if server_hostname is not None and server_hostname == self.proxy_host:
            context = create_client_context()
            return context.wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def _build_server_context(cluster: ClusterEntry) -> ServerContext:
    # to load the system's CAs costs tens of milliseconds: only where they are needed
    context = ServerContext(ssl.PROTOCOL_TLS_CLIENT)
    restrict_key_exchanges(context)
    if cluster.certificate_authority or cluster.certificate_authority_data:
        # as client-go: each certificate of the authority is believed, were it no root
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        with _open_memory_file(
            _read_data_or_file(cluster.certificate_authority, cluster.certificate_authority_data)
        ) as authority:
            context.load_verify_locations(authority)
    elif cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_default_certs()
    return context


def _load_client_certificate(context: ssl.SSLContext, user: User) -> None:
    """Ask with the user's certificate, where he has one. OpenSSL reads it from a file only."""
    if not (user.client_certificate or user.client_certificate_data):
        return
    if not (user.client_key or user.client_key_data):
        raise ValueError("no client-key is set")
    _load_certificate(
        context,
        _read_data_or_file(user.client_certificate, user.client_certificate_data),
        _read_data_or_file(user.client_key, user.client_key_data),
    )


def _load_certificate(context: ssl.SSLContext, chain: bytes, key: bytes) -> None:
    with _open_memory_file(chain) as chain_file, _open_memory_file(key) as key_file:
        context.load_cert_chain(chain_file, key_file, password=_refuse_passphrase)


def _read_data_or_file(name: str | None, data: str | None) -> bytes:
    """Return the data itself, which comes before the name of a file."""
    return base64.b64decode(data) if data else read_regular_file(name or "")


def _refuse_passphrase() -> str:
    """Raise ValueError for a key behind a passphrase: OpenSSL would prompt for it at the terminal, and wait."""
    raise ValueError("client-key needs a passphrase")


@contextlib.contextmanager
def _open_memory_file(content: bytes) -> Iterator[str]:
    """Open a private file in memory that OpenSSL can read."""
    handle = os.memfd_create("transom", os.MFD_CLOEXEC)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)
