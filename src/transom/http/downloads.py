"""Files fetched over https, gone on with where a transfer was cut, and kept only when they have their hash."""

import asyncio
import contextlib
import hashlib
import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from transom.common.regular_files import open_regular_file
from transom.common.tls_clients import create_client_context
from transom.http.bodies import read_body
from transom.proxy.clients.client_table import CLIENTS
from transom.proxy.clients.decision import decide
from transom.proxy.settings import Egress
from transom.proxy.trust import format_pem

_CHUNK: Final = 1 << 18
MAX_DOWNLOAD: Final = 2 << 30
"""Bytes of a file that is fetched; the largest that a payload has are container images of 300 MB."""
_CHECKSUMS: Final = 1 << 20
"""Bytes of a checksum file that are read; it has a line for each file of a release."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
"""Seconds: a large file may take long, as long as something comes."""


class DownloadError(Exception):
    """A file that could not be fetched; the message names the URL, without credentials, and the hop that fails."""


class HashError(DownloadError):
    """What was fetched has another hash, or is larger than any file that may be fetched."""


class Route(msgspec.Struct, frozen=True):
    """How to go out: through the environment's proxy and CAs, or as settings say, which then hold alone."""

    egress: Egress | None = None

    def open_session(self) -> aiohttp.ClientSession:
        """Create a session for this route; without settings the environment applies.

        Bodies are what the server sends, as with curl: some servers send a .tar.gz with `Content-Encoding: gzip`, whose hash is
        that of the archive.
        """
        return aiohttp.ClientSession(
            timeout=_TIMEOUT,
            trust_env=self.egress is None,
            auto_decompress=False,
            headers={"Accept-Encoding": "identity"},
        )

    def select_proxy(self, url: str) -> URL | None:
        """Return the proxy for a URL if it is not from the environment; NO_PROXY is read as Go does."""
        egress = self.egress
        if egress is None or egress.https_proxy is None:
            return None
        bypass = decide(CLIENTS["go"], url, egress.no_proxy or None).bypass
        return None if bypass else URL(egress.https_proxy.reveal())

    def create_context(self) -> ssl.SSLContext:
        """Create a context with the system's CAs (SSL_CERT_FILE) and those of the settings."""
        context = create_client_context()
        if self.egress is not None and self.egress.trust:
            context.load_verify_locations(cadata=format_pem(self.egress.trust))
        return context


async def download(
    route: Route, session: aiohttp.ClientSession, url: str, sha256: str, target: Path, hash_source: str = "payload.yaml"
) -> None:
    """Fetch `url` to `target`, which appears when it is whole and right; `hash_source` is where its hash stands.

    What an earlier try left is gone on with, where the server can (RFC 9110, section 14). Raises DownloadError, OSError.
    """
    part = target.with_name(f"{target.name}.part")
    hashed, received = await asyncio.to_thread(_read_partial, part)
    if hashed.hexdigest() != sha256:
        with _explain_errors(url):
            hashed = await _resume_download(route, session, url, part, hashed, received)
    if hashed.hexdigest() != sha256:
        await asyncio.to_thread(part.unlink)
        raise HashError(f"{url}: its SHA-256 is {hashed.hexdigest()}, and not the one in {hash_source}")
    await asyncio.to_thread(part.rename, target)


async def fetch_checksum(route: Route, session: aiohttp.ClientSession, url: str, checksums_url: str) -> str:
    """Fetch the SHA-256 of `url` from the publisher's checksum file. Raises DownloadError.

    Such a file is a hash alone (dl.k8s.io publishes one for each program), or lines in the format of `sha256sum`.
    """
    with _explain_errors(checksums_url):
        async with session.get(checksums_url, ssl=route.create_context(), proxy=route.select_proxy(checksums_url)) as answer:
            if answer.status != 200:
                raise DownloadError(f"{checksums_url}: the server answered {answer.status}")
            data = await read_body(answer, _CHECKSUMS)
    name = url.rpartition("/")[2]
    lines = [line.split() for line in data.decode("utf-8", "replace").splitlines() if line.strip()]
    alone = len(lines) == 1 and len(lines[0]) == 1
    checksum_candidates = {words[0].lower() for words in lines if alone or (len(words) == 2 and _is_line_for(words[1], name))}
    if len(checksum_candidates) != 1 or not _SHA256.fullmatch(next(iter(checksum_candidates))):
        raise DownloadError(f"{checksums_url}: it has no SHA-256 of {name}")
    return checksum_candidates.pop()


def _is_line_for(text: str, name: str) -> bool:
    """Return True if a line of `sha256sum` is for a file; an asterisk marks binary mode."""
    return text.removeprefix("*").rpartition("/")[2] == name


@contextlib.contextmanager
def _explain_errors(url: str) -> Iterator[None]:
    """Convert errors to DownloadError with the hop that failed."""
    try:
        yield
    except aiohttp.ClientHttpProxyError as error:
        wants = ": it wants credentials, or other ones" if error.status == 407 else ""
        raise DownloadError(f"{url}: the proxy answered {error.status}{wants}") from None
    except aiohttp.ClientConnectorCertificateError:
        raise DownloadError(f"{url}: its certificate is not trusted; is the proxy's CA among the trusted CAs?") from None
    except TimeoutError:
        raise DownloadError(f"{url}: there was no answer in time; is the proxy right?") from None
    except aiohttp.ClientProxyConnectionError:
        raise DownloadError(f"{url}: the proxy cannot be reached") from None
    except aiohttp.ClientConnectorDNSError as error:
        raise DownloadError(f"{url}: {error.host} cannot be resolved; is the proxy right?") from None
    except aiohttp.ClientConnectorError as error:
        why = os.strerror(error.os_error.errno).lower() if error.os_error.errno else "no connection"
        raise DownloadError(f"{url}: {error.host}: {why}; is the proxy right?") from None
    except aiohttp.ClientError:
        raise DownloadError(f"{url}: the connection ended before the file did; is the proxy right?") from None


def _read_partial(part: Path) -> "tuple[hashlib._Hash, int]":
    """Return the hash and the size of what an earlier attempt received."""
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open_regular_file(part) as file:
            return hashlib.file_digest(file, "sha256"), file.tell()
    except FileNotFoundError:
        return hashlib.sha256(), 0


async def _resume_download(
    route: Route, session: aiohttp.ClientSession, url: str, part: Path, hashed: "hashlib._Hash", received: int
) -> "hashlib._Hash":
    headers = {"Range": f"bytes={received}-"} if received else {}
    async with session.get(url, ssl=route.create_context(), proxy=route.select_proxy(url), headers=headers) as answer:
        if answer.status == 416 and received:
            # there is more of it than the server has: it is of another file
            return await _resume_download(route, session, url, part, hashlib.sha256(), 0)
        if answer.status not in (200, 206):
            raise DownloadError(f"{url}: the server answered {answer.status}")
        if answer.status == 200:
            hashed, received = hashlib.sha256(), 0
        size = received + (answer.content_length or 0)
        with part.open("ab" if answer.status == 206 else "wb") as file:
            async for chunk in answer.content.iter_chunked(_CHUNK):
                received += len(chunk)
                if max(size, received) > MAX_DOWNLOAD:
                    await asyncio.to_thread(part.unlink)
                    raise HashError(f"{url}: it has more than {MAX_DOWNLOAD:,} bytes: it is another file")
                file.write(chunk)
                hashed.update(chunk)
    return hashed
