"""Whether hosts will trust the API server by the CAs that they are given: asked of the server itself, before they are."""

import asyncio
import base64
import contextlib
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from transom.common.tls_clients import create_client_context

_SECONDS: Final = 600.0
"""How long an answer holds."""
_AGAIN: Final = 30.0
"""The same where the CAs are wrong."""
_CONNECT_SECONDS: Final = 5.0
_HTTPS: Final = 443


class ApiServerTrust:
    """Remembers the answer for one server with one text of CAs."""

    def __init__(self) -> None:
        self._asking = asyncio.Lock()
        self._answer: tuple[tuple[str, ...], float, str] | None = None

    async def find_trust_problem(self, cluster: Mapping[str, Any]) -> str:
        """Return why readers cannot use the `cluster` of a kubeconfig; empty if they can, or if that is unknown here."""
        server, name = str(cluster.get("server", "")), str(cluster.get("tls-server-name") or "")
        question = (server, name, str(cluster.get("certificate-authority-data") or ""))
        async with self._asking:
            now = time.monotonic()
            if self._answer is None or self._answer[0] != question or now >= self._answer[1]:
                why = await _verify_server(*question)
                self._answer = question, now + (_AGAIN if why else _SECONDS), why
            return self._answer[2]


async def _verify_server(server: str, name: str, encoded: str) -> str:
    if not encoded:
        # who trusts what the system does is another's affair
        return ""
    try:
        url = urlsplit(server)
        host, port = url.hostname or "", url.port or _HTTPS
        context = create_client_context(base64.b64decode(encoded).decode())
    except (ValueError, ssl.SSLError):
        return "the published data is not a list of certificates"
    # Go asks less of a CA's extensions than newer versions of Python do
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name or host)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (OSError, TimeoutError, ValueError):
        # hosts may have another way there
        return ""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return ""
