"""Whom a kubeconfig believes, and with which certificate it asks, as OpenSSL takes it."""

import base64
import contextlib
import os
import ssl
from collections.abc import Iterator

from transom.kube import ConfigurationError
from transom.kube.kubeconfig import Chosen, ClusterEntry, User


def context_of(chosen: Chosen) -> "ServerContext":
    """What TLS to the server is made with. Raises ConfigurationError."""
    try:
        context = _believing(chosen.cluster)
        _show_certificate(context, chosen.user)
    except (OSError, ValueError) as error:
        # of OpenSSL and of base64: neither says a value
        raise ConfigurationError(f"{chosen.source}: a certificate or key of it cannot be read: {error}") from error
    return context


class ServerContext(ssl.SSLContext):
    """A server's context; for the proxy on the way, where `proxy_host` names it, that of the system's CAs.

    aiohttp asks one context for both, as Go does: the kubeconfig's own authority says nothing about somebody else's proxy.
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
            context = ssl.create_default_context()
            return context.wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def _believing(cluster: ClusterEntry) -> ServerContext:
    # to load the system's CAs costs tens of milliseconds: only where they are needed
    context = ServerContext(ssl.PROTOCOL_TLS_CLIENT)
    if cluster.certificate_authority or cluster.certificate_authority_data:
        # as client-go: each certificate of the authority is believed, were it no root
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        with _file(cluster.certificate_authority, cluster.certificate_authority_data) as authority:
            context.load_verify_locations(authority)
    elif cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_default_certs()
    return context


def _show_certificate(context: ssl.SSLContext, user: User) -> None:
    """Ask with the user's certificate, where he has one. OpenSSL reads it from a file only."""
    if not (user.client_certificate or user.client_certificate_data):
        return
    if not (user.client_key or user.client_key_data):
        raise ValueError("there is no client-key")
    with (
        _file(user.client_certificate, user.client_certificate_data) as certificate,
        _file(user.client_key, user.client_key_data) as key,
    ):
        context.load_cert_chain(certificate, key)


@contextlib.contextmanager
def _file(name: str | None, data: str | None) -> Iterator[str]:
    """A file that OpenSSL can read; the data itself comes before the name of a file, and lies in memory, ours alone."""
    if not data:
        yield name or ""
        return
    handle = os.memfd_create("transom", os.MFD_CLOEXEC)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(base64.b64decode(data))
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)
