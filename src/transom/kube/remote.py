"""The API server of another cluster, by a kubeconfig that somebody put into a Secret.

Such a text is not ours: only what it says itself is used. A command, a file or a plugin that it names would run or be read in
Transom's own pod, so a kubeconfig with one is refused.
"""

import base64
import binascii
import os
import ssl
from collections.abc import Mapping
from typing import Any, Final

import httpx2

from transom.kube.connection import USER_AGENT, Connection
from transom.kube.errors import ConfigurationError
from transom.kube.kubeconfig import parts

TIMEOUT: Final = 10.0
"""Seconds of one step on the way to the server: shorter than at home, since the server may be far away or gone."""
_CONNECT: Final = 5.0
_MAX_PORT: Final = 65_535
_REFUSED: Final = {
    "cluster": ("certificate-authority",),
    "user": ("exec", "auth-provider", "tokenFile", "client-certificate", "client-key"),
}


def server_of(kubeconfig: Any, source: str) -> str:
    """The URL of the server that a kubeconfig, as plain values, leads to. Raises ConfigurationError."""
    return str(_parts(kubeconfig, source)[0].get("server") or "")


def connect_remote(kubeconfig: Any, source: str, proxy: str | None = None) -> Connection:
    """A connection by the current context of a kubeconfig, as plain values; its `proxy-url` comes before `proxy`.

    Nothing is sent yet. Raises ConfigurationError; its message names `source` and the field, and no value.
    """
    cluster, user = _parts(kubeconfig, source)
    server = str(cluster.get("server") or "")
    if not server.startswith("https://"):
        raise ConfigurationError(f"{source}: cluster.server is no https URL")
    # what is compressed may become any size
    headers = {"User-Agent": USER_AGENT, "Accept": "application/json", "Accept-Encoding": "identity"}
    auth: httpx2.Auth | None = None
    if token := user.get("token"):
        if not str(token).isascii() or not str(token).isprintable():
            raise ConfigurationError(f"{source}: user.token has characters that no token has")
        headers["Authorization"] = f"Bearer {token}"
    elif user.get("username"):
        auth = httpx2.BasicAuth(str(user["username"]), str(user.get("password") or ""))
    way = str(cluster.get("proxy-url") or "") or proxy
    try:
        for url in filter(None, (server, way)):
            if (httpx2.URL(url).port or 0) > _MAX_PORT:
                raise ValueError("no such port")
        http = httpx2.AsyncClient(
            base_url=server,
            verify=_context(cluster, user, source),
            headers=headers,
            auth=auth,
            proxy=way,
            trust_env=False,
            timeout=httpx2.Timeout(TIMEOUT, connect=_CONNECT),
            limits=httpx2.Limits(max_connections=2),
        )
    except (ValueError, TypeError, ImportError, httpx2.InvalidURL) as error:
        # their texts may quote the proxy's URL. ImportError: a proxy by SOCKS, for which a library would be needed
        raise ConfigurationError(f"{source}: the server or the proxy has no usable URL (a proxy's is http or https)") from error
    server_name = str(cluster.get("tls-server-name") or "") or None
    return Connection(http, server, str(cluster.get("namespace") or "default"), source, server_name=server_name)


def _parts(config: Any, source: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The cluster and the user of the current context."""
    found = parts(config, source)
    for part, values in (("cluster", found.cluster), ("user", found.user)):
        for field in _REFUSED[part]:
            if values.get(field):
                raise ConfigurationError(f"{source}: {part}.{field} is not taken: put the data itself into the kubeconfig")
    return found.cluster, found.user


def _context(cluster: Mapping[str, Any], user: Mapping[str, Any], source: str) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify") is True:
        raise ConfigurationError(f"{source}: cluster.insecure-skip-tls-verify is not taken: put the CA into the kubeconfig")
    authority = cluster.get("certificate-authority-data")
    try:
        # to load the system's CAs costs tens of milliseconds: only where they are needed
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if authority else ssl.create_default_context()
        if authority:
            context.load_verify_locations(cadata=_decoded(authority).decode("ascii"))
        if (certificate := user.get("client-certificate-data")) and (key := user.get("client-key-data")):
            _load_pair(context, _decoded(certificate), _decoded(key))
    except (ValueError, binascii.Error, ssl.SSLError, OSError) as error:
        raise ConfigurationError(f"{source}: a certificate or key of it cannot be read") from error
    return context


def _decoded(value: Any) -> bytes:
    return base64.b64decode(str(value), validate=False)


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """OpenSSL reads a client's key from a file only: this one is in memory, and ours alone."""
    handle = os.memfd_create("transom", os.MFD_CLOEXEC)
    try:
        os.write(handle, certificate.rstrip(b"\n") + b"\n" + key)
        context.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
