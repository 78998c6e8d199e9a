"""Files fetched over https, through the proxy of the environment, and kept only when they have their hash."""

import hashlib
import ssl
from collections.abc import Callable
from pathlib import Path

import aiohttp

_CHUNK = 1 << 18


class DownloadError(Exception):
    """A file that could not be fetched, or has another hash; the message names the URL, without credentials."""


async def download(
    session: aiohttp.ClientSession, url: str, sha256: str, target: Path, report: Callable[[int], object] = lambda _: None
) -> None:
    """Fetch `url` to `target`, which appears when it is whole and right. `report` is given bytes as they come.

    The session is made with `trust_env`, so that HTTPS_PROXY and NO_PROXY hold; SSL_CERT_FILE names the CAs. Raises
    DownloadError, OSError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    hashed = hashlib.sha256()
    try:
        async with session.get(url, ssl=ssl.create_default_context()) as answer:
            if answer.status != 200:
                raise DownloadError(f"{url}: the server answered {answer.status}")
            with part.open("wb") as file:
                async for chunk in answer.content.iter_chunked(_CHUNK):
                    file.write(chunk)
                    hashed.update(chunk)
                    report(len(chunk))
    except aiohttp.ClientHttpProxyError as error:
        raise DownloadError(f"{url}: the proxy answered {error.status}") from None
    except (aiohttp.ClientError, TimeoutError) as error:
        raise DownloadError(f"{url}: {type(error).__name__}; is HTTPS_PROXY right?") from None
    if hashed.hexdigest() != sha256:
        part.unlink()
        raise DownloadError(f"{url}: its SHA-256 is {hashed.hexdigest()}, and not the one in payload.yaml")
    part.rename(target)
